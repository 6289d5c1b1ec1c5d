package postgres

import (
	"context"
	"time"
)

const (
	putNote   = `INSERT INTO notes (key, at) VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET at = excluded.at`
	getNote   = `SELECT at FROM notes WHERE key = $1`
	putSecret = `INSERT INTO secrets (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING`
	getSecret = `SELECT value FROM secrets WHERE name = $1`
)

// Note keeps a time in one statement, see fleet.Store.
func (s *Store) Note(ctx context.Context, key string, at time.Time) error {
	return s.one(ctx, nil, putNote, key, at)
}

// Noted returns a time, see fleet.Store.
func (s *Store) Noted(ctx context.Context, key string) (time.Time, error) {
	var at *time.Time
	err := s.one(ctx, func(row scanner) error { return row.Scan(&at) }, getNote, key)
	return timeOf(at), err
}

// Secret keeps a secret, see fleet.Store.
func (s *Store) Secret(ctx context.Context, name string, value []byte) (kept []byte, err error) {
	if err := s.one(ctx, nil, putSecret, name, value); err != nil {
		return nil, err
	}
	err = s.one(ctx, func(row scanner) error { return row.Scan(&kept) }, getSecret, name)
	return kept, err
}
