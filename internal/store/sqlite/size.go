package sqlite

import "context"

const selectSize = `SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()`

// Size returns the size of the database in bytes, without its log; see fleet.Store.
func (s *Store) Size(ctx context.Context) (size int64, err error) {
	return s.queryInt64(ctx, selectSize)
}
