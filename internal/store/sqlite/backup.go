package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"fleet/internal/store/record"
)

// Backup writes a copy of the store in the file at path into a new file, private to this user. Servers may use the
// store meanwhile. The copy is the state of the store at one moment.
func Backup(ctx context.Context, path, to string) (err error) {
	db, err := openExisting(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s already exists: name a new file", to)
	}
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = errors.Join(err, os.Remove(to))
		}
	}()
	full, err := filepath.Abs(to)
	if err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, `VACUUM INTO ?`, full); err != nil {
		return fmt.Errorf("copy %s: %w", path, addAdvice(err))
	}
	return f.Sync() // SQLite has written the file under its name, and does not sync it
}

// openExisting opens the file without changing it. It returns an error if the file does not exist.
func openExisting(path string) (*sql.DB, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	u := url.URL{Scheme: "file", Path: path, RawQuery: url.Values{"_busy_timeout": {"5000"}}.Encode()}
	db, err := sql.Open("sqlite", u.String())
	if err == nil {
		db.SetMaxOpenConns(1)
	}
	return db, err
}

// ErrInUse is returned by Export while a server uses the store.
var ErrInUse = errors.New("a server uses the store: stop it first; after a crash, wait a moment until its leases end")

// Export calls fn with a function that returns all rows of a table. All tables are read from the same state of the
// store, and the schema is up to date. Export returns ErrInUse if a server holds a lease.
func (s *Store) Export(ctx context.Context, fn func(rows func(table string) (*sql.Rows, error)) error) error {
	return s.read(ctx, func(c *conn) error {
		t := &baseTx{ctx: ctx, conn: c}
		return t.run("BEGIN", func() error {
			held, err := record.QueryFirst(t, record.ScanInt, `SELECT count(*) FROM leases WHERE until > ?`, micros(time.Now()))
			if err != nil {
				return err
			}
			if held > 0 {
				return ErrInUse
			}
			return fn(func(table string) (*sql.Rows, error) {
				return c.query(ctx, `SELECT * FROM "`+table+`"`)
			})
		})
	})
}
