package sqlite

import (
	"context"
	"time"
)

const (
	takeLease = `INSERT INTO leases (key, owner, until) VALUES (?, ?, ?)
		ON CONFLICT (key) DO UPDATE SET owner = excluded.owner, until = excluded.until
		WHERE leases.owner = excluded.owner OR leases.until <= ?`
	releaseLease = `DELETE FROM leases WHERE key = ? AND owner = ?`
)

// Lease takes or renews a lease in one statement, see fleet.Store.
func (s *Store) Lease(ctx context.Context, key, owner string, now, until time.Time) (has bool, err error) {
	err = s.write(ctx, func(c *conn) error {
		r, err := c.exec(ctx, takeLease, key, owner, micros(until), micros(now))
		if err != nil {
			return plain(ctx, err)
		}
		n, err := r.RowsAffected()
		has = n > 0
		return err
	})
	return has, err
}

// Release gives a lease back, see fleet.Store.
func (s *Store) Release(ctx context.Context, key, owner string) error {
	return s.write(ctx, func(c *conn) error {
		_, err := c.exec(ctx, releaseLease, key, owner)
		return plain(ctx, err)
	})
}
