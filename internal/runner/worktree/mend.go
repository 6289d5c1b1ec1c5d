package worktree

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Limits for the search for locks in a git directory, which the agent can fill.
const (
	maxLockEntries = 20_000
	maxLockDepth   = 16
)

// unlinked reports whether the working tree has lost the link to its git directory, which still exists.
func (t Tree) unlinked() bool {
	_, err := os.Lstat(filepath.Join(t.Dir, ".git"))
	return errors.Is(err, fs.ErrNotExist) && t.separate()
}

// mend makes the tree usable for the next task. It restores the link to the git directory if the agent has removed it.
// It removes locks, which remain if git was killed, and would make every later command fail. No program of the agent
// may run.
func (t Tree) mend() error {
	if t.unlinked() {
		if err := t.link(); err != nil {
			return err
		}
	}
	root, err := os.OpenRoot(t.GitDir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	left := maxLockEntries
	removeLocks(root, ".", maxLockDepth, &left)
	return nil
}

// removeLocks removes git's locks below the directory. It ignores errors, because the agent may have made entries that
// cannot be read or removed.
func removeLocks(root *os.Root, dir string, depth int, left *int) {
	f, err := root.Open(dir)
	if err != nil {
		return
	}
	entries, _ := f.ReadDir(*left)
	_ = f.Close()
	*left -= len(entries)
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		switch {
		case strings.HasSuffix(e.Name(), ".lock"):
			_ = root.Remove(name)
		case !e.IsDir() || depth == 0 || *left <= 0:
		case dir == "." && (e.Name() == "objects" || e.Name() == "lfs" || e.Name() == "hooks"): // git's locks there expire
		default:
			removeLocks(root, name, depth-1, left)
		}
	}
}
