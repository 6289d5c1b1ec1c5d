package postgres

import (
	"context"
	"time"
)

const (
	putNote = `INSERT INTO notes (key, at) VALUES ($1, clock_timestamp() - $2::bigint * interval '1 microsecond')
		ON CONFLICT (key) DO UPDATE SET at = excluded.at`
	selectNote = `SELECT (extract(epoch FROM clock_timestamp() - at) * 1000000)::bigint FROM notes WHERE key = $1`
)

// NoteDone stores when the thing with the key was done, see fleet.Store. It uses the database's clock.
func (s *Store) NoteDone(ctx context.Context, key string, ago time.Duration) error {
	return s.runStatement(ctx, s.sidePool, nil, putNote, key, ago.Microseconds())
}

// LastDone returns how long ago the thing with the key was done, see fleet.Store.
func (s *Store) LastDone(ctx context.Context, key string) (ago time.Duration, ok bool, err error) {
	var micros int64
	err = s.runStatement(ctx, s.sidePool, func(row scanner) error { ok = true; return row.Scan(&micros) }, selectNote, key)
	return time.Duration(micros) * time.Microsecond, ok, err
}
