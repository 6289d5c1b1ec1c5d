package postgres

import (
	"context"
)

const getSize = `SELECT pg_database_size(current_database())`

// Size returns the size of the database, see fleet.Store.
func (s *Store) Size(ctx context.Context) (size int64, err error) {
	err = s.one(ctx, func(row scanner) error { return row.Scan(&size) }, getSize)
	return size, err
}
