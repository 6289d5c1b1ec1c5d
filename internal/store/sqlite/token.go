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

func (t *readTx) Tokens(f fleet.TokenFilter) ([]*fleet.Token, error) {
	switch {
	case f.AgentUID != "":
		return all(t, record.ScanToken, record.SelectTokens+`WHERE agent_uid <> '' AND agent_uid = ? AND revoked_at IS NULL ORDER BY n`, f.AgentUID)
	case f.All:
		return all(t, record.ScanToken, record.SelectTokens+`WHERE agent_uid = '' ORDER BY name, n`)
	default:
		return all(t, record.ScanToken, record.SelectTokens+`WHERE agent_uid = '' AND name = ? ORDER BY n`, f.Name)
	}
}

func (t *tx) insertToken(k *fleet.Token) error {
	if _, err := t.exec(insertToken, record.TokenArgs(k)...); err != nil {
		return t.failed(tokenError("add", k, err))
	}
	return nil
}

// UpdateToken finds the row of the token by its hash, since several tokens can have the same name.
func (t *tx) updateToken(k *fleet.Token) error {
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
