package worktree

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"fleet/internal/runner/process"
	"fleet/internal/scratch"
)

// lockTimeout is how long Fleet waits for an index that another process has locked, such as the git of an editor.
const lockTimeout = 3 * time.Second

const lockPollInterval = 20 * time.Millisecond

// lockPath returns the path of git's own lock of the index.
func (c checkout) lockPath() string { return filepath.Join(c.gitDir, "index.lock") }

// nextIndexPath returns the path of the next index, which replaces the index.
func (c checkout) nextIndexPath() string { return filepath.Join(c.gitDir, "fleet-move.index") }

// lockIndex locks the index of the working tree as git does, so that people cannot commit meanwhile. The lock names this process,
// so that Fleet ignores the lock when the process has ended. lockIndex also creates the next index, as a copy of the index.
func (c checkout) lockIndex(ctx context.Context, branch string) error {
	self, err := process.Self()
	if err != nil {
		return err
	}
	data, err := json.Marshal(self)
	if err != nil {
		return err
	}
	temp, err := scratch.WriteTemp(filepath.Join(c.gitDir, "fleet-move.lock"), data)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temp) }()
	if err := ownerOf(c.dir).chown(temp); err != nil {
		return err
	}
	for start := time.Now(); ; {
		err := os.Link(temp, c.lockPath())
		switch {
		case err == nil:
			if err = c.copyIndex(); err != nil {
				err = errors.Join(err, c.unlockIndex())
			}
			return err
		case !errors.Is(err, fs.ErrExist):
			return err
		case c.lockIsStale():
			err = os.Remove(c.lockPath())
		case time.Since(start) > lockTimeout:
			return c.busyError(branch, "another git is running, or was killed and has left the file %s: wait for it, or remove the file", c.lockPath())
		default:
			err = nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lockPollInterval):
		}
	}
}

// lockIsStale reports whether the lock was left by a process of Fleet that no longer runs.
func (c checkout) lockIsStale() bool {
	f, err := os.Open(c.lockPath())
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	var id process.ID
	return json.NewDecoder(io.LimitReader(f, maxMark)).Decode(&id) == nil && id.PID != 0 && !id.Alive()
}

// copyIndex makes the next index a copy of the index.
func (c checkout) copyIndex() error {
	if err := os.Remove(c.nextIndexPath() + ".lock"); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a git that was killed
		return err
	}
	if err := os.Remove(c.nextIndexPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	from, err := os.Open(filepath.Join(c.gitDir, "index"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	info, err := from.Stat()
	if err != nil {
		return err
	}
	to, err := os.OpenFile(c.nextIndexPath(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	// git trusts the index about a file only if the index is newer than the file. So the copy keeps the time of the index.
	return errors.Join(err, to.Close(), ownerOf(c.dir).chown(c.nextIndexPath()), os.Chtimes(c.nextIndexPath(), time.Time{}, info.ModTime()))
}

// replaceIndex makes the next index the index of the working tree.
func (c checkout) replaceIndex() error {
	return os.Rename(c.nextIndexPath(), filepath.Join(c.gitDir, "index"))
}

// unlockIndex removes the lock and the next index. They need not exist.
func (c checkout) unlockIndex() error {
	var errs []error
	for _, path := range []string{c.nextIndexPath(), c.nextIndexPath() + ".lock", c.lockPath()} {
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
