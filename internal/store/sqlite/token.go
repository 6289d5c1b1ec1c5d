package sqlite

import (
	"context"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

// TokensByHash returns the tokens with the hashes, see fleet.Store.
func (s *Store) TokensByHash(ctx context.Context, hashes []string) (map[string]*fleet.Token, error) {
	found := map[string]*fleet.Token{}
	err := s.read(ctx, func(c *conn) error {
		tokens, err := record.QueryAll(&baseTx{ctx: ctx, conn: c}, record.ScanToken, record.SelectTokens+`WHERE hash `+inList, jsonList(hashes))
		for _, t := range tokens {
			found[t.Hash] = t
		}
		return err
	})
	return found, err
}
