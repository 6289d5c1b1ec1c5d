package postgres

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"fleet/internal/fleet"
)

const (
	tokenColumns = `name, kind, admin, hash, created_at, expires_at, revoked_at, agent_uid, scope, projects`
	selectTokens = `SELECT ` + tokenColumns + ` FROM tokens `
)

var (
	insertToken = numbered(`INSERT INTO tokens (` + tokenColumns + `) VALUES (` + marks(tokenColumns) + `)`)
	updateToken = numbered(`UPDATE tokens SET (` + tokenColumns + `) = ROW (` + marks(tokenColumns) + `) WHERE hash = ? RETURNING 1`)
)

// Token returns the token with the name that is not revoked. If all are revoked, it returns the newest.
func (t *readTx) Token(name string) (*fleet.Token, error) {
	t.lock(lockToken, name)
	return first(t, scanToken, selectTokens+`WHERE name = $1 ORDER BY revoked_at IS NOT NULL, n DESC LIMIT 1`, name)
}

func (t *readTx) TokenByHash(hash string) (*fleet.Token, error) {
	t.lock(lockHash, hash)
	return first(t, scanToken, selectTokens+`WHERE hash = $1`, hash)
}

func (t *readTx) AgentTokens(agentUID string) ([]*fleet.Token, error) {
	t.lock(lockTokens, agentUID)
	return all(t, scanToken, selectTokens+`WHERE agent_uid <> '' AND agent_uid = $1 AND revoked_at IS NULL ORDER BY n`, agentUID)
}

// Tokens returns every token, also revoked ones, ordered by name and then by age.
func (t *readTx) Tokens() ([]*fleet.Token, error) {
	return all(t, scanToken, selectTokens+`ORDER BY name, n`)
}

func (t *tx) InsertToken(k *fleet.Token) error {
	t.lockToken(k)
	if err := t.exec(insertToken, tokenArgs(k)...); err != nil {
		return t.failed(tokenError("add", k, err))
	}
	return nil
}

// UpdateToken writes the token with the hash, since several tokens can have one name.
func (t *tx) UpdateToken(k *fleet.Token) error {
	t.lockToken(k)
	if _, err := t.revise(updateToken, append(tokenArgs(k), k.Hash)...); err != nil {
		return t.failed(tokenError("write", k, err))
	}
	return nil
}

func (t *tx) lockToken(k *fleet.Token) {
	t.lock(lockToken, k.Name)
	t.lock(lockHash, k.Hash)
	if k.AgentUID != "" {
		t.lock(lockTokens, k.AgentUID)
	}
}

// tokenError omits causes that are not needed, because an error must never contain a hash.
func tokenError(act string, k *fleet.Token, err error) error {
	switch {
	case taken(err, "tokens_name"):
		return fleet.Errorf(fleet.ReasonTokenExists,
			"a token named %q already exists: choose another name, or revoke that token first", k.Name).WithCause(err)
	case taken(err, "tokens_hash"):
		err = errors.New("another token has the same secret")
	}
	return fmt.Errorf("%s token %q: %w", act, k.Name, err)
}

func tokenArgs(k *fleet.Token) []any {
	return []any{k.Name, string(k.Kind), k.Scope == fleet.ScopeAdmin, k.Hash, k.CreatedAt, maybe(k.ExpiresAt), maybe(k.RevokedAt), k.AgentUID, k.Scope.String(), strings.Join(k.Projects, "\n")}
}

func scanToken(row scanner) (*fleet.Token, error) {
	var (
		k                         fleet.Token
		created, expires, revoked *time.Time
		admin                     bool
		scope, projects           string
	)
	err := row.Scan(&k.Name, (*string)(&k.Kind), &admin, &k.Hash, &created, &expires, &revoked, &k.AgentUID, &scope, &projects)
	if err != nil {
		return nil, err
	}
	if k.Scope = fleet.ScopeRun; scope != "" {
		k.Scope, _ = fleet.ParseScope(scope)
	} else if admin {
		k.Scope = fleet.ScopeAdmin
	}
	if projects != "" {
		k.Projects = strings.Split(projects, "\n")
	}
	k.CreatedAt, k.ExpiresAt, k.RevokedAt = timeOf(created), timeOf(expires), timeOf(revoked)
	return &k, nil
}
