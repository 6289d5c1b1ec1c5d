package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	driver "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// plain replaces SQLite's "interrupted" error of a cancelled call with the error of ctx.
func plain(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// taken reports whether err violates the unique index whose first column is given as "table.column". SQLite names the
// columns, not the index.
func taken(err error, column string) bool {
	e, ok := errors.AsType[*driver.Error](err)
	return ok && e.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE && strings.Contains(e.Error(), "failed: "+column)
}

// ended reports whether err comes from the trigger that protects ended tasks.
func ended(err error) bool {
	e, ok := errors.AsType[*driver.Error](err)
	return ok && e.Code() == sqlite3.SQLITE_CONSTRAINT_TRIGGER
}

// busy reports whether another process was in the way, so that a retry may succeed.
func busy(err error) bool {
	e, ok := errors.AsType[*driver.Error](err)
	if !ok {
		return false
	}
	primary := e.Code() & 0xff
	return primary == sqlite3.SQLITE_BUSY || primary == sqlite3.SQLITE_LOCKED
}

// noRoom reports whether err means that the disk is full.
func noRoom(err error) bool {
	e, ok := errors.AsType[*driver.Error](err)
	return ok && e.Code()&0xff == sqlite3.SQLITE_FULL
}

// retry repeats f while other processes are in the way, up to the busy timeout.
func (s *Store) retry(ctx context.Context, f func() error) error {
	deadline := time.Now().Add(s.cfg.BusyTimeout)
	for {
		err := f()
		switch {
		case !busy(err):
			return err
		case time.Now().After(deadline):
			return fmt.Errorf("another process holds the write lock of %s for more than %s: %w", s.path, s.cfg.BusyTimeout, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}
