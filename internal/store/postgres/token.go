package postgres

import (
	"context"
	"errors"
	"fmt"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

var (
	insertToken = numbered(`INSERT INTO tokens (` + record.TokenColumns + `) VALUES (` + record.Marks(record.TokenColumns) + `)`)
	updateToken = numbered(`UPDATE tokens SET (` + record.TokenColumns + `) = ROW (` + record.Marks(record.TokenColumns) + `) WHERE hash = ? RETURNING 1`)
)

// TokensByHash returns the tokens with the hashes, see fleet.Store.
func (s *Store) TokensByHash(ctx context.Context, hashes []string) (map[string]*fleet.Token, error) {
	found := map[string]*fleet.Token{}
	err := s.one(ctx, s.reader, func(row scanner) error {
		t, err := record.ScanToken(row)
		if err == nil {
			found[t.Hash] = t
		}
		return err
	}, record.SelectTokens+`WHERE hash = ANY($1)`, hashes)
	return found, err
}

func (t *readTx) Tokens(f fleet.TokenFilter) ([]*fleet.Token, error) {
	switch {
	case f.AgentUID != "":
		t.lock(lockTokens, f.AgentUID)
		return all(t, record.ScanToken, record.SelectTokens+`WHERE agent_uid <> '' AND agent_uid = $1 AND revoked_at IS NULL ORDER BY n`, f.AgentUID)
	case f.All:
		return all(t, record.ScanToken, record.SelectTokens+`WHERE agent_uid = '' ORDER BY name, n`)
	default:
		t.lock(lockToken, f.Name)
		return all(t, record.ScanToken, record.SelectTokens+`WHERE agent_uid = '' AND name = $1 ORDER BY n`, f.Name)
	}
}

func (t *tx) insertToken(k *fleet.Token) error {
	t.lockToken(k)
	if err := t.exec(insertToken, record.TokenArgs(k)...); err != nil {
		return t.failed(tokenError("add", k, err))
	}
	return nil
}

// UpdateToken finds the row of the token by its hash, since several tokens can have the same name.
func (t *tx) updateToken(k *fleet.Token) error {
	t.lockToken(k)
	if _, err := t.revise(updateToken, append(record.TokenArgs(k), k.Hash)...); err != nil {
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

// tokenError returns the error for a failed write of the token. It omits the database's error if the hash is taken,
// because an error must never contain a hash.
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
