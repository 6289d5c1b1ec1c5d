package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"

	driver "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// checkedFirst is the size of the largest file that is checked before it is used, in bytes. That takes less than 100 ms.
const checkedFirst = 32 << 20

// check reads the database and returns an error if it is damaged.
func check(ctx context.Context, db *sql.DB) error {
	var verdict string
	err := db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&verdict)
	switch {
	case err != nil:
		return plain(ctx, err)
	case verdict != "ok":
		return damage{errors.New(verdict)}
	}
	return nil
}

// checkFirst checks a database that is small, or that is to be upgraded. later says that the check is still to be done: by itself, SQLite
// only notices damage in the pages that it reads.
func (s *Store) checkFirst(ctx context.Context, db *sql.DB) (later bool, err error) {
	info, err := os.Stat(s.file.Name())
	if err != nil {
		return false, err
	}
	if info.Size() > s.cfg.CheckedFirst {
		p, err := provider(db)
		if err != nil {
			return false, err
		}
		have, want, err := p.GetVersions(ctx)
		if err != nil || have >= want {
			return err == nil, err
		}
	}
	return false, s.retry(ctx, func() error { return check(ctx, db) })
}

// checker checks the database while the store is used.
type checker struct {
	found atomic.Pointer[error] // what is wrong with the database; nil if nothing is known to be
	stop  context.CancelFunc
	done  chan struct{}
}

func newChecker(db *sql.DB, path string, log *slog.Logger) *checker {
	ctx, stop := context.WithCancel(context.Background())
	c := &checker{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		err := check(ctx, db)
		switch {
		case ctx.Err() != nil:
		case damaged(err):
			err = advise(err)
			c.found.Store(&err)
			log.Error("the database is damaged, refusing writes", slog.String("file", path), slog.Any("error", err))
		case err != nil:
			log.Warn("the database could not be checked for damage", slog.String("file", path), slog.Any("error", err))
		}
	}()
	return c
}

// err returns what is wrong with the database.
func (c *checker) err() error {
	if c == nil {
		return nil
	}
	if found := c.found.Load(); found != nil {
		return *found
	}
	return nil
}

func (c *checker) close() {
	if c != nil {
		c.stop()
		<-c.done
	}
}

// damage describes what is wrong with a database.
type damage struct{ error }

// damaged reports whether err says that the database is damaged.
func damaged(err error) bool {
	if _, ok := errors.AsType[damage](err); ok {
		return true
	}
	e, ok := errors.AsType[*driver.Error](err)
	if !ok {
		return false
	}
	primary := e.Code() & 0xff
	return primary == sqlite3.SQLITE_CORRUPT || primary == sqlite3.SQLITE_NOTADB
}

// advise adds to the error of a damaged database what to do about it.
func advise(err error) error {
	if !damaged(err) {
		return err
	}
	return fmt.Errorf("the database is damaged (%w): restore it from a backup, or, to start over, move it away with the files whose names start with its name", err)
}
