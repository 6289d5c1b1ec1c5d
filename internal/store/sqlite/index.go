package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"os"
)

// header is the header of the WAL index. It consists of two copies, which SQLite writes one after the other at each
// commit of any process (https://sqlite.org/walformat.html#the_wal_index_header). If it has not changed, nothing was
// committed.
type header [96]byte

// index is the file of the WAL index. All processes that use the database map it into their memory.
type index struct {
	file   *os.File
	memory []byte // nil if this system cannot map the file
	conn   *conn  // keeps SQLite from replacing the file; the pulse uses it for its queries
}

// openIndex opens the index.
func openIndex(ctx context.Context, db *sql.DB, path string) (_ *index, err error) {
	x := &index{}
	if x.conn, err = newConn(ctx, db); err != nil {
		return nil, err
	}
	if _, err = x.conn.int64(ctx, lastSeq); err == nil { // a query makes the connection use the file
		x.file, err = os.Open(path + "-shm")
	}
	if err != nil {
		_ = x.conn.close()
		return nil, err
	}
	x.memory, _ = mapped(x.file, len(header{}))
	return x, nil
}

// header returns the current header. While SQLite is writing the header, the result differs from the header before and
// after the write, so a caller can only assume a change too often.
func (x *index) header() (h header) {
	copy(h[:], x.memory)
	return h
}

// close unmaps the file and closes the connection. It leaves the file open: see makeFile.
func (x *index) close() error {
	if x == nil {
		return nil
	}
	var err error
	if x.memory != nil {
		err = unmap(x.memory)
	}
	return errors.Join(err, x.conn.close())
}

// closeFile closes the file. Call it after all of SQLite's connections are closed.
func (x *index) closeFile() error {
	if x == nil {
		return nil
	}
	return x.file.Close()
}
