package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

var (
	insertToken = `INSERT INTO tokens (` + record.TokenColumns + `) VALUES (` + record.Marks(record.TokenColumns) + `)`
	updateToken = `UPDATE tokens SET (` + record.TokenColumns + `) = (` + record.Marks(record.TokenColumns) + `) WHERE hash = ? RETURNING 1`
)

// Token returns the valid token with the name. If all tokens with the name are revoked, it returns the newest of them.
func (t *readTx) Token(name string) (*fleet.Token, error) {
	return first(t, record.ScanToken, record.SelectTokens+`WHERE agent_uid = '' AND name = ? ORDER BY revoked_at IS NOT NULL, n DESC LIMIT 1`, name)
}

// TokensByHash returns the tokens with the hashes, see fleet.Store.
func (s *Store) TokensByHash(ctx context.Context, hashes []string) (map[string]*fleet.Token, error) {
	list, err := json.Marshal(hashes)
	if err != nil {
		return nil, err
	}
	found := map[string]*fleet.Token{}
	err = s.read(ctx, func(c *conn) error {
		tokens, err := all(&readTx{ctx: ctx, conn: c}, record.ScanToken, record.SelectTokens+`WHERE hash IN (SELECT value FROM json_each(?))`, string(list))
		for _, t := range tokens {
			found[t.Hash] = t
		}
		return err
	})
	return found, err
}

func (t *readTx) AgentTokens(agentUID string) ([]*fleet.Token, error) {
	return all(t, record.ScanToken, record.SelectTokens+`WHERE agent_uid <> '' AND agent_uid = ? AND revoked_at IS NULL ORDER BY n`, agentUID)
}

// TokensNamed returns the tokens with the name, including revoked ones, from the oldest to the newest.
func (t *readTx) TokensNamed(name string) ([]*fleet.Token, error) {
	return all(t, record.ScanToken, record.SelectTokens+`WHERE agent_uid = '' AND name = ? ORDER BY n`, name)
}

// Tokens returns all tokens, including revoked tokens, ordered by name and then from the oldest to the newest.
func (t *readTx) Tokens() ([]*fleet.Token, error) {
	return all(t, record.ScanToken, record.SelectTokens+`WHERE agent_uid = '' ORDER BY name, n`)
}

func (t *tx) InsertToken(k *fleet.Token) error {
	if _, err := t.exec(insertToken, record.TokenArgs(k)...); err != nil {
		return t.failed(tokenError("add", k, err))
	}
	return nil
}

// UpdateToken finds the row of the token by its hash, since several tokens can have the same name.
func (t *tx) UpdateToken(k *fleet.Token) error {
	if _, err := t.revise(updateToken, append(record.TokenArgs(k), k.Hash)...); err != nil {
		return t.failed(tokenError("write", k, err))
	}
	return nil
}

// tokenError returns the error for a failed write of the token. It omits SQLite's error if the hash is taken, because
// an error must never contain a hash.
func tokenError(act string, k *fleet.Token, err error) error {
	switch {
	case taken(err, "tokens.name"):
		return fleet.Errorf(fleet.ReasonTokenExists,
			"a token named %q already exists: choose another name, or revoke that token first", k.Name).WithCause(err)
	case taken(err, "tokens.hash"):
		err = errors.New("another token has the same secret")
	}
	return fmt.Errorf("%s token %q: %w", act, k.Name, err)
}
