package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"fleet/internal/store/record"
)

// ErrInUse is returned by Export while a server holds a lease.
var ErrInUse = errors.New("a server uses the store: stop it first; after a crash, wait a moment until its leases end")

// Export calls fn with a function that returns all rows of a table. All tables are read from the same state of the
// store. Their schema is up to date, because Open has upgraded it. Export returns ErrInUse if a server holds a lease.
func (s *Store) Export(ctx context.Context, fn func(rows func(table string) (*sql.Rows, error)) error) error {
	return s.read(ctx, func(c *conn) error {
		t := &baseTx{ctx: ctx, conn: c}
		return t.run("BEGIN", func() error {
			leases, err := record.QueryFirst(t, record.ScanInt, `SELECT count(*) FROM leases WHERE until > ?`, micros(time.Now()))
			if err != nil {
				return err
			}
			if leases > 0 {
				return ErrInUse
			}
			return fn(func(table string) (*sql.Rows, error) {
				return c.query(ctx, `SELECT * FROM "`+table+`"`)
			})
		})
	})
}
