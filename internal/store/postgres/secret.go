package postgres

import "context"

const (
	putSecret    = `INSERT INTO secrets (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING`
	selectSecret = `SELECT value FROM secrets WHERE name = $1`
)

// EnsureSecret stores a secret unless there is one with the name, and returns the stored secret; see fleet.Store.
func (s *Store) EnsureSecret(ctx context.Context, name string, value []byte) (stored []byte, err error) {
	if err := s.runStatement(ctx, s.sidePool, nil, putSecret, name, value); err != nil {
		return nil, err
	}
	err = s.runStatement(ctx, s.sidePool, func(row scanner) error { return row.Scan(&stored) }, selectSecret, name)
	return stored, err
}
