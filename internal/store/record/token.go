package record

import (
	"errors"
	"fmt"
	"strings"

	"fleet/internal/fleet"
)

const tokenColumns = `name, kind, hash, created_at, expires_at, revoked_at, agent_uid, scope, projects, task_id`

// SelectTokens is the beginning of a query whose rows ScanToken reads.
const SelectTokens = `SELECT ` + tokenColumns + ` FROM tokens `

var (
	insertToken = insertStatement("tokens", tokenColumns)
	updateToken = `UPDATE tokens SET (` + tokenColumns + `) = (` + Placeholders(tokenColumns) + `) WHERE hash = ? RETURNING 1 AS revision`
)

// Tokens returns the matching tokens, see fleet.ReadTx.
func (t ReadTx) Tokens(f fleet.TokenFilter) ([]*fleet.Token, error) {
	switch {
	case f.AgentUID != "":
		t.DB.Lock(lockAgentTokens, f.AgentUID)
		return QueryAll(t.DB, ScanToken, SelectTokens+`WHERE agent_uid <> '' AND agent_uid = ? AND revoked_at IS NULL ORDER BY n`, f.AgentUID)
	case f.All:
		return QueryAll(t.DB, ScanToken, SelectTokens+`WHERE agent_uid = '' ORDER BY name, n`)
	default:
		t.DB.Lock(lockToken, f.Name)
		return QueryAll(t.DB, ScanToken, SelectTokens+`WHERE agent_uid = '' AND name = ? ORDER BY n`, f.Name)
	}
}

func (t Tx) insertToken(k *fleet.Token) error {
	t.lockToken(k)
	return t.DB.Exec(t.tokenError("add", k), insertToken, tokenArgs(k)...)
}

// updateToken finds the row of the token by its hash, since several tokens can have the same name.
func (t Tx) updateToken(k *fleet.Token) error {
	t.lockToken(k)
	return t.DB.Revise(new(int64), t.tokenError("write", k), updateToken, append(tokenArgs(k), k.Hash)...)
}

func (t Tx) lockToken(k *fleet.Token) {
	t.DB.Lock(lockToken, k.Name)
	t.DB.Lock(lockTokenHash, k.Hash)
	if k.AgentUID != "" {
		t.DB.Lock(lockAgentTokens, k.AgentUID)
	}
}

// tokenError returns the function that explains a failed write of the token. If another token has the same hash, the function
// omits the database's error, because an error must never contain a hash.
func (t Tx) tokenError(verb string, k *fleet.Token) func(error) error {
	return func(err error) error {
		switch {
		case t.DB.Violates(err, uniqueTokenName):
			return fleet.Errorf(fleet.ReasonTokenExists,
				"a token named %q already exists: choose another name, or revoke that token first", k.Name).WithCause(err)
		case t.DB.Violates(err, uniqueTokenHash):
			err = errors.New("another token has the same secret")
		}
		return fmt.Errorf("%s token %q: %w", verb, k.Name, err)
	}
}

func tokenArgs(k *fleet.Token) []any {
	return []any{
		k.Name, string(k.Kind), k.Hash, k.CreatedAt, NullTime(k.ExpiresAt), NullTime(k.RevokedAt), k.AgentUID,
		k.Scope.String(), strings.Join(k.Projects, "\n"), k.TaskID,
	}
}

// ScanToken returns the token of a row of SelectTokens.
func ScanToken(row Scanner) (*fleet.Token, error) {
	var (
		k               fleet.Token
		scope, projects string
	)
	err := row.Scan(&k.Name, (*string)(&k.Kind), &k.Hash, (*TimeColumn)(&k.CreatedAt), (*TimeColumn)(&k.ExpiresAt), (*TimeColumn)(&k.RevokedAt), &k.AgentUID, &scope, &projects, &k.TaskID)
	if err != nil {
		return nil, err
	}
	k.Scope, _ = fleet.ParseScope(scope) // the table has no other scopes
	if projects != "" {
		k.Projects = strings.Split(projects, "\n")
	}
	return &k, nil
}
