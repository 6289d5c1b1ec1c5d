// Package scratch creates temporary files and directories that a later process removes if this process is killed.
package scratch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// dirPrefix begins the names of the directories that Open creates.
const dirPrefix = "fleet-"

// Dir is a directory for the temporary files of one process. The process holds a lock on it, which ends with the
// process.
type Dir struct {
	path string
	lock *os.File
}

// Open creates a directory below parent, and parent if it does not exist. It also removes the directories of processes that have
// ended.
func Open(parent string) (*Dir, error) {
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return nil, err
	}
	_ = Sweep(parent) // directories that cannot be removed do not disturb this process
	for {
		path, err := os.MkdirTemp(parent, dirPrefix+"*")
		if err != nil {
			return nil, err
		}
		lock, err := tryLock(path)
		if err != nil {
			return nil, err
		}
		if lock != nil {
			return &Dir{path, lock}, nil
		}
		// Another process has removed the directory before it was locked.
	}
}

// Path returns the path of the directory.
func (d *Dir) Path() string { return d.path }

// Close removes the directory.
func (d *Dir) Close() error { return errors.Join(os.RemoveAll(d.path), d.lock.Close()) }

// Sweep removes directories below parent that processes have created with Open before they ended. It succeeds if parent
// does not exist.
func Sweep(parent string) error {
	entries, err := os.ReadDir(parent)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), dirPrefix) {
			continue
		}
		path := filepath.Join(parent, e.Name())
		lock, err := tryLock(path)
		if err == nil && lock != nil {
			err = errors.Join(os.RemoveAll(path), lock.Close())
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("cannot remove the temporary files of an earlier process: %w", err))
		}
	}
	return errors.Join(errs...)
}

// tryLock locks the directory. It returns nil if the directory is locked already, or no longer exists.
func tryLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	lockErr := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	current, err := os.Lstat(path)
	opened, statErr := f.Stat()
	switch {
	case lockErr == nil && err == nil && statErr == nil && os.SameFile(current, opened):
		return f, nil
	case lockErr == nil, errors.Is(lockErr, syscall.EWOULDBLOCK):
		return nil, f.Close()
	}
	return nil, errors.Join(fmt.Errorf("cannot lock %s: %w", path, lockErr), f.Close())
}
