package sqlite

import (
	"context"

	"fleet/internal/store/record"
)

const (
	putSecret    = `INSERT INTO secrets (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING`
	selectSecret = `SELECT value FROM secrets WHERE name = ?`
)

// EnsureSecret stores a secret unless there is one with the name, and returns the stored secret; see fleet.Store.
func (s *Store) EnsureSecret(ctx context.Context, name string, value []byte) (stored []byte, err error) {
	err = s.write(ctx, func(c *conn) error {
		if _, err := c.exec(ctx, putSecret, name, value); err != nil {
			return contextError(ctx, err)
		}
		stored, err = record.QueryFirst(&baseTx{ctx: ctx, conn: c}, record.ScanBytes, selectSecret, name)
		return err
	})
	return stored, err
}
