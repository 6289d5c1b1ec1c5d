package postgres

import (
	"context"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

// TokensByHash returns the tokens with the hashes, see fleet.Store.
func (s *Store) TokensByHash(ctx context.Context, hashes []string) (map[string]*fleet.Token, error) {
	found := map[string]*fleet.Token{}
	err := s.runStatement(ctx, s.reader, func(row scanner) error {
		t, err := record.ScanToken(row)
		if err == nil {
			found[t.Hash] = t
		}
		return err
	}, record.SelectTokens+`WHERE hash = ANY($1)`, hashes)
	return found, err
}
