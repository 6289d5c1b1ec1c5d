package postgres

import (
	"context"
)

const (
	selectSize   = `SELECT pg_database_size(current_database())`
	selectSchema = `SELECT coalesce(max(version_id), 0) FROM goose_db_version`
)

// Size returns the size of the database, see fleet.Store.
func (s *Store) Size(ctx context.Context) (size int64, err error) {
	err = s.runStatement(ctx, s.sidePool, func(row scanner) error { return row.Scan(&size) }, selectSize)
	return size, err
}

// Schema returns the versions of the schema, see fleet.Store.
func (s *Store) Schema(ctx context.Context) (have, want int64, err error) {
	err = s.runStatement(ctx, s.sidePool, func(row scanner) error { return row.Scan(&have) }, selectSchema)
	return have, s.schemaAtOpen, err
}
