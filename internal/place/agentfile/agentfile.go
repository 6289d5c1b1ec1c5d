// Package agentfile reads and appends to files that an agent can replace. An agent could replace such a file with a
// named pipe, a device, a socket or a symbolic link. Opening the path would then block forever or open another file.
// The functions of this package never block on such a file, and open only regular files and directories.
//
// Places and runners must use this package instead of package os for every file that an agent can write.
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

// ErrReplaced means that the path exists but is not the expected kind of file, or that the file is too long.
var ErrReplaced = errors.New("not a regular file")

// openFlags prevent opening a file from blocking, and from following a symbolic link in the last part of the path.
const openFlags = syscall.O_NONBLOCK | syscall.O_NOFOLLOW | syscall.O_CLOEXEC

// Open opens a regular file for reading. It returns fs.ErrNotExist if the path does not exist, and ErrReplaced if it is
// not a regular file.
func Open(path string) (*os.File, error) { return open(path, os.O_RDONLY) }

// Read returns the content of a regular file, with the errors of Open. It also returns ErrReplaced if the file is longer than
// limit bytes.
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

// ReadDir returns the entries of a directory, sorted by name. It returns ErrReplaced if the path is not a directory.
func ReadDir(path string) ([]os.DirEntry, error) {
	d, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|openFlags, 0)
	if err != nil {
		return nil, markReplaced(path, err)
	}
	defer func() { _ = d.Close() }()
	entries, err := d.ReadDir(-1)
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}

// FileKind says what is at a path.
type FileKind int

// The kinds of files.
const (
	Missing FileKind = iota // nothing, or something that cannot be reached
	File
	Dir
	Other // for example, a symbolic link
)

// Kind returns what is at the path, without opening it.
func Kind(path string) FileKind {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return Missing
	case info.Mode().IsRegular():
		return File
	case info.IsDir():
		return Dir
	}
	return Other
}

// Append appends data to an existing regular file, with the errors of Open. It does not create the file.
func Append(path string, data []byte) error {
	f, err := open(path, os.O_WRONLY|os.O_APPEND)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// OpenAppend opens a regular file for appending, and creates it if necessary. It returns ErrReplaced if the path is not a regular
// file.
func OpenAppend(path string) (*os.File, error) {
	return open(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE)
}

func open(path string, mode int) (*os.File, error) {
	f, err := os.OpenFile(path, mode|openFlags, 0o600)
	if err != nil {
		return nil, markReplaced(path, err)
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

// markReplaced adds ErrReplaced to err if err means that the path is an unexpected kind of file: a symbolic link, a pipe
// without a reader, a socket, a file instead of a directory, or a directory instead of a file.
func markReplaced(path string, err error) error {
	for _, errno := range []error{syscall.ELOOP, syscall.ENXIO, syscall.ENOTDIR, syscall.EISDIR, syscall.ENODEV, syscall.EOPNOTSUPP} {
		if errors.Is(err, errno) {
			return fmt.Errorf("%w: %w", ErrReplaced, err)
		}
	}
	return err
}
