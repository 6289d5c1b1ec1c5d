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

// defaultMaxSizeCheckedAtOpen is the size of the largest file that is checked before it is used, in bytes. The check of such a file
// takes less than 100 ms.
const defaultMaxSizeCheckedAtOpen = 32 << 20

// checkIntegrity reads the whole database and returns an error if it is damaged or cannot be read.
func checkIntegrity(ctx context.Context, db *sql.DB) error {
	var verdict string
	err := db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&verdict)
	switch {
	case err != nil:
		return contextError(ctx, err)
	case verdict != "ok":
		return damageError{errors.New(verdict)}
	}
	return nil
}

// checkAtOpen checks a database that is small or needs an upgrade for damage. For any other database, it returns later = true:
// the caller must check it while it is used, because SQLite itself notices damage only in pages that it reads.
func (s *Store) checkAtOpen(ctx context.Context, db *sql.DB) (later bool, err error) {
	info, err := os.Stat(s.file.Name())
	if err != nil {
		return false, err
	}
	if info.Size() > s.cfg.MaxSizeCheckedAtOpen {
		p, err := provider(db)
		if err != nil {
			return false, err
		}
		have, want, err := p.GetVersions(ctx)
		if err != nil || have >= want {
			return err == nil, err
		}
	}
	return false, s.retry(ctx, func() error { return checkIntegrity(ctx, db) })
}

// checker checks the database for damage once, while the store is used.
type checker struct {
	damage atomic.Pointer[error] // the damage; nil if none was found yet
	stop   context.CancelFunc
	done   chan struct{}
}

// newChecker starts a check in the background. If the check finds damage, it logs the damage, and the method err returns it from
// then on.
func newChecker(db *sql.DB, path string, log *slog.Logger) *checker {
	ctx, stop := context.WithCancel(context.Background())
	c := &checker{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		err := checkIntegrity(ctx, db)
		switch {
		case ctx.Err() != nil:
		case isDamaged(err):
			err = addDamageAdvice(err)
			c.damage.Store(&err)
			log.Error("database is damaged, refusing writes", slog.String("file", path), slog.Any("error", err))
		case err != nil:
			log.Warn("database could not be checked for damage", slog.String("file", path), slog.Any("error", err))
		}
	}()
	return c
}

// err returns the damage that the check has found, or nil. A nil checker has found nothing.
func (c *checker) err() error {
	if c == nil {
		return nil
	}
	if damage := c.damage.Load(); damage != nil {
		return *damage
	}
	return nil
}

func (c *checker) close() {
	if c != nil {
		c.stop()
		<-c.done
	}
}

// damageError is the error of a check that has found damage.
type damageError struct{ error }

// isDamaged reports whether err says that the database is damaged.
func isDamaged(err error) bool {
	if _, ok := errors.AsType[damageError](err); ok {
		return true
	}
	e, ok := errors.AsType[*driver.Error](err)
	if !ok {
		return false
	}
	primary := e.Code() & 0xff
	return primary == sqlite3.SQLITE_CORRUPT || primary == sqlite3.SQLITE_NOTADB
}

// addDamageAdvice adds advice to an error that means that the database is damaged. It returns any other error unchanged.
func addDamageAdvice(err error) error {
	if !isDamaged(err) {
		return err
	}
	return fmt.Errorf("the database is damaged (%w): restore it from a backup, or, to start over, move away the file and all files whose names begin with its name", err)
}
