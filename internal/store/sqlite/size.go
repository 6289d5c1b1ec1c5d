package sqlite

import (
	"context"
)

const getSize = `SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()`

// Size returns the size of the database without its log, see fleet.Store.
func (s *Store) Size(ctx context.Context) (size int64, err error) {
	err = s.read(ctx, func(c *conn) error {
		size, err = c.int64(ctx, getSize)
		return plain(ctx, err)
	})
	return size, err
}
