// Package sqlitetest opens SQLite stores for tests without running the migrations each time. Each test program creates
// an empty store once and copies its file.
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

// emptyFile returns the content of the file of an empty store.
var emptyFile = sync.OnceValues(func() (_ []byte, err error) {
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

// Create writes the file of an empty store. It returns an error if the file exists.
func Create(path string) error {
	content, err := emptyFile()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) //nolint:gosec // the test names it
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}

// Open opens the store in the file at path. If the file does not exist, Open first creates it with Create.
func Open(ctx context.Context, path string) (*sqlite.Store, error) {
	if err := Create(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return sqlite.Open(ctx, path, sqlite.Config{})
}
