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

// contextError returns err, or the error of ctx if ctx has ended, because SQLite then fails only with "interrupted".
func contextError(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// isUniqueViolation reports whether err means that a write violates a unique index. column is the first column of the index, as
// "table.column", because SQLite's error names the columns of the index and not the index.
func isUniqueViolation(err error, column string) bool {
	e, ok := errors.AsType[*driver.Error](err)
	return ok && e.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE && strings.Contains(e.Error(), "failed: "+column)
}

// isEndedTask reports whether err comes from the trigger that protects ended tasks.
func isEndedTask(err error) bool {
	e, ok := errors.AsType[*driver.Error](err)
	return ok && e.Code() == sqlite3.SQLITE_CONSTRAINT_TRIGGER
}

// isBusy reports whether err means that another process holds a lock, so that a retry may succeed.
func isBusy(err error) bool {
	e, ok := errors.AsType[*driver.Error](err)
	if !ok {
		return false
	}
	primary := e.Code() & 0xff
	return primary == sqlite3.SQLITE_BUSY || primary == sqlite3.SQLITE_LOCKED
}

// isDiskFull reports whether err means that the disk is full.
func isDiskFull(err error) bool {
	e, ok := errors.AsType[*driver.Error](err)
	return ok && e.Code()&0xff == sqlite3.SQLITE_FULL
}

// retry repeats f while it fails because other processes hold locks, for at most the busy timeout.
func (s *Store) retry(ctx context.Context, f func() error) error {
	deadline := time.Now().Add(s.cfg.BusyTimeout)
	for {
		err := f()
		switch {
		case !isBusy(err):
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
