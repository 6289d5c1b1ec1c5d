package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

const (
	putNote    = `INSERT INTO notes (key, at) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET at = excluded.at`
	selectNote = `SELECT at FROM notes WHERE key = ?`
)

// NoteDone records that something was done, see fleet.Store. It uses the machine's clock, as AcquireLease does.
func (s *Store) NoteDone(ctx context.Context, key string, ago time.Duration) error {
	return s.write(ctx, func(c *conn) error {
		_, err := c.exec(ctx, putNote, key, micros(time.Now().Add(-ago)))
		return contextError(ctx, err)
	})
}

// LastDone returns how long ago something was done, see fleet.Store.
func (s *Store) LastDone(ctx context.Context, key string) (ago time.Duration, ok bool, err error) {
	err = s.read(ctx, func(c *conn) error {
		n, err := c.queryInt64(ctx, selectNote, key)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if ok = err == nil; ok {
			ago = time.Since(time.UnixMicro(n))
		}
		return contextError(ctx, err)
	})
	return ago, ok, err
}
