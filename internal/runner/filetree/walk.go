//go:build unix

// Package filetree examines, changes and removes directories that agents wrote. An agent can nest directories to any depth, put
// any number of entries into one, and create symbolic links. The package follows no links, and has only a few open
// descriptors, whatever the depth.
//
// Package sandbox calls it in a confined process. This package must never interpret the content of a file.
package filetree

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// entry is an entry of a directory.
type entry struct {
	name string
	stat unix.Stat_t
}

func (e entry) isDir() bool { return e.stat.Mode&unix.S_IFMT == unix.S_IFDIR }

// directory is a directory on the path from the root of a walk to where the walk is. Only the last one is open.
type directory struct {
	*os.File
	name     string
	dev, ino uint64
	subdirs  []string // subdirectories that the walk has not entered yet
}

// visitor is called during a walk. Its functions may remove and rename the entries that they get.
type visitor struct {
	// enter gets the next entries of a directory, and returns the subdirectories to walk. depth is 0 for the root of the walk.
	// If batch is 0, enter gets all entries in one call. Otherwise it gets at most batch entries, and is called again with the
	// entries that are left, until there are none.
	enter func(d *directory, depth int, entries []entry) (subdirs []string, err error)
	// leave is called when the walk of the directory name is complete. depth is that of the parent. leave may be nil.
	leave func(parent *directory, depth int, name string) error
	// batch limits the entries of one call of enter; 0 means no limit. If batch is positive, enter and leave must remove all entries.
	// Otherwise the walk does not end.
	batch int
}

// errMoved means that a directory was moved during the walk.
var errMoved = errors.New("the directory was moved while it was read")

// walk visits the directory and everything below it. It fails if root is a symbolic link.
func walk(root string, v visitor) error {
	d, err := open(unix.AT_FDCWD, root)
	if err != nil {
		return &os.PathError{Op: "open", Path: root, Err: err}
	}
	return d.walk(root, v)
}

// walk visits the open directory and everything below it, and closes it. root names the directory in errors.
func (d *directory) walk(root string, v visitor) error {
	var parents []*directory
	defer func() { _ = d.Close() }()
	for justEntered := true; ; {
		if justEntered || v.batch > 0 && len(d.subdirs) == 0 {
			entries, err := d.entries(v.batch)
			if err != nil {
				return fmt.Errorf("%s: %w", root, err)
			}
			if justEntered || len(entries) > 0 {
				if d.subdirs, err = v.enter(d, len(parents), entries); err != nil {
					return fmt.Errorf("%s: %w", root, err)
				}
				if justEntered = false; v.batch > 0 && len(entries) > 0 && len(d.subdirs) == 0 {
					continue
				}
			}
		}
		if n := len(d.subdirs); n > 0 {
			name := d.subdirs[n-1]
			d.subdirs = d.subdirs[:n-1]
			child, err := open(int(d.Fd()), name)
			if errors.Is(err, unix.ENOENT) {
				continue // a program has removed it meanwhile
			}
			if err != nil {
				return fmt.Errorf("%s: %w", root, &os.PathError{Op: "open", Path: name, Err: err})
			}
			_ = d.Close()
			parents, d, justEntered = append(parents, d), child, true
			continue
		}
		if len(parents) == 0 {
			return nil
		}
		parent := parents[len(parents)-1]
		parents = parents[:len(parents)-1]
		if err := parent.reopen(d); err != nil {
			return fmt.Errorf("%s: %w", root, err)
		}
		_ = d.Close()
		leftName := d.name
		d = parent
		if v.leave != nil {
			if err := v.leave(d, len(parents), leftName); err != nil {
				return fmt.Errorf("%s: %w", root, err)
			}
		}
	}
}

const openDirFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// open opens a directory. It makes the directory accessible for its owner first, if necessary: agents leave read-only
// directories, such as caches of modules.
func open(parentFD int, name string) (*directory, error) {
	fd, err := unix.Openat(parentFD, name, openDirFlags, 0)
	if errors.Is(err, unix.EACCES) {
		if err := makeAccessible(parentFD, name); err != nil {
			return nil, err
		}
		fd, err = unix.Openat(parentFD, name, openDirFlags, 0)
	}
	if err != nil {
		return nil, err
	}
	d := &directory{File: os.NewFile(uintptr(fd), name), name: name}
	d.dev, d.ino, err = d.id()
	return d, err
}

// id returns the device and the inode of the open directory.
func (d *directory) id() (dev, ino uint64, err error) {
	var s unix.Stat_t
	err = unix.Fstat(int(d.Fd()), &s)
	return uint64(s.Dev), s.Ino, err //nolint:unconvert // the type of Dev depends on the system
}

// reopen opens the directory again, as the parent of the open directory child.
func (d *directory) reopen(child *directory) error {
	fd, err := unix.Openat(int(child.Fd()), "..", openDirFlags, 0)
	if err != nil {
		return err
	}
	d.File = os.NewFile(uintptr(fd), d.name)
	dev, ino, err := d.id()
	if err == nil && (dev != d.dev || ino != d.ino) {
		err = errMoved
	}
	return err
}

// entries returns the entries of the directory. If n is positive, it starts at the beginning of the directory again, and
// returns at most n entries.
func (d *directory) entries(n int) ([]entry, error) {
	if n > 0 {
		if _, err := d.Seek(0, io.SeekStart); err != nil {
			return nil, err
		}
	}
	names, err := d.Readdirnames(n)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	all := make([]entry, 0, len(names))
	for _, name := range names {
		e := entry{name: name}
		switch err := unix.Fstatat(int(d.Fd()), name, &e.stat, unix.AT_SYMLINK_NOFOLLOW); {
		case errors.Is(err, unix.ENOENT):
		case err != nil:
			return nil, &os.PathError{Op: "stat", Path: name, Err: err}
		default:
			all = append(all, e)
		}
	}
	return all, nil
}

// changeEntry calls do, which changes an entry of the directory. If the directory is not writable, changeEntry makes it writable for its
// owner and tries again. It returns nil if the entry no longer exists. what names the change in errors.
func (d *directory) changeEntry(what, name string, do func(fd int) error) error {
	err := do(int(d.Fd()))
	if errors.Is(err, unix.EACCES) {
		if unix.Fchmod(int(d.Fd()), 0o700) == nil {
			err = do(int(d.Fd()))
		}
	}
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return &os.PathError{Op: what, Path: name, Err: err}
	}
	return nil
}
