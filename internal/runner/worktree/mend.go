package worktree

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// Limits for the search for locks in a git directory, which the agent can fill.
const (
	maxLockEntries = 20_000
	maxLockDepth   = 16
)

// peopleLock is the age from which a lock cannot belong to a git that still runs.
const peopleLock = 10 * time.Minute

// unlinked reports whether the working tree has lost the link to its git directory.
func (t Tree) unlinked() bool {
	_, err := os.Lstat(filepath.Join(t.Dir, ".git"))
	return errors.Is(err, fs.ErrNotExist) && t.separate()
}

// mend makes the tree usable for the next task. It restores the link to the git directory if the agent has removed it.
// It removes locks, which remain if git was killed, and would make every later command fail. No program of the agent
// may run. In a repository that people use too, it removes only locks that no running git can hold.
func (t Tree) mend() error {
	dir := t.GitDir
	switch {
	case !t.separate():
		dir = filepath.Join(t.Dir, ".git")
	case t.unlinked():
		if err := t.link(); err != nil {
			return err
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		if !t.separate() {
			return nil // no repository
		}
		return err
	}
	defer func() { _ = root.Close() }()
	s := lockSearch{root, t.separate(), maxLockEntries}
	s.remove(".", maxLockDepth)
	return nil
}

// lockSearch removes git's locks.
type lockSearch struct {
	root *os.Root
	all  bool // also removes locks that are younger than peopleLock
	left int  // how many more entries are examined
}

// remove removes the locks below the directory. It ignores errors, because the agent may have made entries that cannot
// be read or removed.
func (s *lockSearch) remove(dir string, depth int) {
	f, err := s.root.Open(dir)
	if err != nil || s.left <= 0 {
		return
	}
	entries, _ := f.ReadDir(s.left)
	_ = f.Close()
	s.left -= len(entries)
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		switch {
		case strings.HasSuffix(e.Name(), ".lock"):
			if info, err := e.Info(); s.all || err == nil && time.Since(info.ModTime()) > peopleLock {
				_ = s.root.Remove(name)
			}
		case !e.IsDir() || depth == 0:
		case dir == "." && (e.Name() == "objects" || e.Name() == "lfs" || e.Name() == "hooks"): // git's locks there expire
		default:
			s.remove(name, depth-1)
		}
	}
}
