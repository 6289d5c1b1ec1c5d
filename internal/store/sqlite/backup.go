package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Backup copies the store in the file at path into a new file at to, which only this user can read. Servers may use the store
// meanwhile. The copy is the state of the store at one moment. Backup fails if the file at to exists.
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
		return fmt.Errorf("copy %s: %w", path, addDamageAdvice(err))
	}
	return f.Sync() // SQLite has written the file under its name, and does not sync it
}
