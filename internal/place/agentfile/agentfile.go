// Package agentfile reads and appends to files that an agent can replace. An agent could put a named pipe, a device, a
// socket or a symbolic link in the place of such a file, and opening that could block for ever or lead elsewhere. The
// functions of this package never block, and take regular files and directories only.
package agentfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
)

// ErrReplaced is the error of a path that is there and is not what it should be: a regular file, or a directory.
var ErrReplaced = errors.New("the file was replaced by something that cannot be read")

// flags never block, and follow no symbolic link.
const flags = syscall.O_NONBLOCK | syscall.O_NOFOLLOW | syscall.O_CLOEXEC

// Open opens a regular file for reading. It returns fs.ErrNotExist when nothing is there, ErrReplaced when something else
// than a regular file is.
func Open(path string) (*os.File, error) { return open(path, os.O_RDONLY) }

// Read returns the content of a regular file, at most limit bytes of it; a longer file is an error.
func Read(path string, limit int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		return nil, fmt.Errorf("%s is longer than %d bytes: %w", path, limit, ErrReplaced)
	}
	return b, err
}

// ReadDir returns the entries of a directory, sorted by name.
func ReadDir(path string) ([]os.DirEntry, error) {
	d, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|flags, 0)
	if err != nil {
		return nil, replaced(path, err)
	}
	defer func() { _ = d.Close() }()
	entries, err := d.ReadDir(-1)
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}

// Append adds data to the end of a regular file that exists.
func Append(path string, data []byte) error {
	f, err := open(path, os.O_WRONLY|os.O_APPEND)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// Create makes the file when it does not exist, and opens it for appending.
func Create(path string) (*os.File, error) { return open(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE) }

func open(path string, mode int) (*os.File, error) {
	f, err := os.OpenFile(path, mode|flags, 0o600)
	if err != nil {
		return nil, replaced(path, err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: %w", path, ErrReplaced)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// replaced returns ErrReplaced for the errors that the system has for something of another kind: a symbolic link, a pipe
// that nobody reads, a socket, a file in the place of a directory or the other way round.
func replaced(path string, err error) error {
	for _, other := range []error{syscall.ELOOP, syscall.ENXIO, syscall.ENOTDIR, syscall.EISDIR, syscall.ENODEV, syscall.EOPNOTSUPP} {
		if errors.Is(err, other) {
			return fmt.Errorf("%w: %w", ErrReplaced, err)
		}
	}
	return err
}
