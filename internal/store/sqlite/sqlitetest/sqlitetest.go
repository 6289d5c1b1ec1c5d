// Package sqlitetest gives tests SQLite stores that need no migrations: copies of a store that each test program creates once.
package sqlitetest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"fleet/internal/store/sqlite"
)

// empty returns the file of an empty store.
var empty = sync.OnceValues(func() (_ []byte, err error) {
	dir, err := os.MkdirTemp("", "fleet-test")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "fleet.db")
	s, err := sqlite.Open(context.Background(), path, sqlite.Config{})
	if err != nil {
		return nil, err
	}
	if err := s.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(path) //nolint:gosec // created above
})

// Create writes the file of an empty store, which must not exist.
func Create(path string) error {
	db, err := empty()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) //nolint:gosec // the test names it
	if err != nil {
		return err
	}
	_, err = f.Write(db)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// Open opens the store of a file, which it creates if it does not exist.
func Open(ctx context.Context, path string) (*sqlite.Store, error) {
	if err := Create(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return sqlite.Open(ctx, path, sqlite.Config{})
}
