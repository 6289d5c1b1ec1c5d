package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

const (
	putNote = `INSERT INTO notes (key, at) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET at = excluded.at`
	getNote = `SELECT at FROM notes WHERE key = ?`
)

// Note keeps a time in one statement, see fleet.Store.
func (s *Store) Note(ctx context.Context, key string, at time.Time) error {
	return s.write(ctx, func(c *conn) error {
		_, err := c.exec(ctx, putNote, key, micros(at))
		return plain(ctx, err)
	})
}

// Noted returns a time, see fleet.Store.
func (s *Store) Noted(ctx context.Context, key string) (at time.Time, err error) {
	err = s.read(ctx, func(c *conn) error {
		n, err := c.int64(ctx, getNote, key)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		at = timeOf(sql.NullInt64{Int64: n, Valid: err == nil})
		return plain(ctx, err)
	})
	return at, err
}
