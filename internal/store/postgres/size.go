package postgres

import "context"

const selectSize = `SELECT pg_database_size(current_database())`

// Size returns the size of the database, see fleet.Store.
func (s *Store) Size(ctx context.Context) (size int64, err error) {
	err = s.runStatement(ctx, s.sidePool, func(row scanner) error { return row.Scan(&size) }, selectSize)
	return size, err
}
