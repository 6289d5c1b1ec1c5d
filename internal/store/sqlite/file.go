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

	"fleet/internal/scratch"
)

// openFile opens the file by its absolute path, and creates it if it does not exist. It makes the file private to this
// user, because it contains tasks and hashes of tokens. SQLite creates its other files with the same mode.
//
// The file must stay open until SQLite's connections are closed. A process that closes a file loses all its locks on
// this file, including SQLite's locks (fcntl(2), "Advisory record locking").
//
// openFile refuses an empty file. A valid file is never empty, not even during its creation, so an empty file was
// truncated. SQLite would treat it as a new database. openFile also refuses to create a file whose log exists.
func (s *Store) openFile(ctx context.Context) (*os.File, error) {
	if s.path == "" {
		return nil, errors.New("the path of the store is empty: name a file")
	}
	path, err := filepath.Abs(s.path)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if log, err := os.Stat(path + "-wal"); err == nil && log.Size() > 0 {
			return nil, fmt.Errorf("the file does not exist, but its log %s-wal does: restore the file from a backup, or move the log away to start over", path)
		}
		if err := createFile(ctx, path); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	case info.Mode().IsRegular() && info.Size() == 0:
		return nil, errors.New("the file is empty: restore it from a backup, or remove it to start over")
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	return f, f.Chmod(0o600)
}

// createFile creates a database without tables at path. If another process creates the file meanwhile, createFile keeps that
// file.
func createFile(ctx context.Context, path string) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := scratch.CreateTemp(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	if err := f.Close(); err != nil {
		return err
	}
	u := url.URL{Scheme: "file", Path: f.Name()}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, "PRAGMA application_id = 0x466c6574") // "Flet"; this writes the first page of the file
	if err = errors.Join(err, db.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
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
