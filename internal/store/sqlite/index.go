package sqlite

import (
	"context"
	"database/sql"
	"errors"
)

// header is the header of the WAL index: two copies, which SQLite writes one after the other at each commit of any process
// (https://sqlite.org/walformat.html#the_wal_index_header). If it has not changed, nothing was committed.
type header [96]byte

// index is the file of the WAL index, which the processes that use the database share in memory.
type index struct {
	memory []byte
	conn   *conn // is not used. It keeps SQLite from replacing the file.
}

// openIndex opens the index; nil if this system does not allow that.
func openIndex(ctx context.Context, db *sql.DB, path string) (*index, error) {
	c, err := newConn(ctx, db)
	if err != nil {
		return nil, err
	}
	if _, err := c.int64(ctx, lastSeq); err != nil { // which makes the connection use the file
		_ = c.close()
		return nil, err
	}
	memory, err := mapped(path+"-shm", len(header{}))
	if err != nil {
		return nil, c.close()
	}
	return &index{memory, c}, nil
}

// header returns the header as it is now. A header that SQLite is writing equals none before and after it.
func (x *index) header() (h header) {
	copy(h[:], x.memory)
	return h
}

func (x *index) close() error {
	if x == nil {
		return nil
	}
	return errors.Join(unmap(x.memory), x.conn.close())
}
