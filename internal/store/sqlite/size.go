package sqlite

import (
	"context"
)

const (
	selectSize   = `SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()`
	selectSchema = `SELECT coalesce(max(version_id), 0) FROM goose_db_version`
)

// Size returns the size of the database in bytes, without its log; see fleet.Store.
func (s *Store) Size(ctx context.Context) (size int64, err error) {
	return s.queryInt64(ctx, selectSize)
}

// Schema returns the versions of the schema, see fleet.Store.
func (s *Store) Schema(ctx context.Context) (have, want int64, err error) {
	have, err = s.queryInt64(ctx, selectSchema)
	return have, s.schemaAtOpen, err
}

// queryInt64 returns the number that the query selects.
func (s *Store) queryInt64(ctx context.Context, query string) (n int64, err error) {
	err = s.read(ctx, func(c *conn) error {
		n, err = c.queryInt64(ctx, query)
		return contextError(ctx, err)
	})
	return n, err
}
