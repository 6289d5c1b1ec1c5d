//go:build unix

package gitfiles

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"time"
)

// Tree is an agent's git directory with its working tree.
type Tree struct {
	GitDir   string `json:"git_dir"`
	Dir      string `json:"dir,omitempty"`  // the working tree, if Link is set
	Link     string `json:"link,omitempty"` // content that the file .git of the working tree must have; empty: the file is not checked
	AllLocks bool   `json:"all,omitempty"`  // Repair also removes locks that are younger than staleLockAge
}

// RepairResult describes the git directory after Repair.
type RepairResult struct {
	Commit string `json:"commit"` // see Info.Commit
}

// Limits for the search for locks in a git directory, which the agent can fill.
const (
	maxLockEntries = 20_000
	maxLockDepth   = 16
)

// staleLockAge is the age from which a lock counts as left behind by a git process that was killed.
const staleLockAge = 10 * time.Minute

// Repair restores the file .git of the working tree, which links to the git directory, if the file is missing or names another
// directory. Repair also removes the locks of killed git processes, because they would make later git commands fail. No program of
// the agent may run during Repair.
func Repair(t Tree) (RepairResult, error) {
	if t.Link != "" {
		if err := t.restoreLink(); err != nil {
			return RepairResult{}, err
		}
	}
	root, err := os.OpenRoot(t.GitDir)
	if err != nil {
		return RepairResult{}, err
	}
	defer func() { _ = root.Close() }()
	s := lockSearch{root, t.AllLocks, maxLockEntries}
	s.remove(".", maxLockDepth)
	i, err := Read(t.GitDir)
	return RepairResult{i.Commit}, err
}

func (t Tree) restoreLink() error {
	root, err := os.OpenRoot(t.Dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	info, err := root.Lstat(".git")
	if err == nil {
		if current, err := readRegular(root, ".git", maxSmallFile); !info.Mode().IsRegular() || err == nil && string(current) == t.Link {
			return nil // the link is correct, or the agent has replaced it, perhaps by a repository of its own
		}
		err = root.Remove(".git")
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := root.OpenFile(".git", os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(t.Link)
	return errors.Join(err, f.Close())
}

// lockSearch finds and removes git's locks.
type lockSearch struct {
	root      *os.Root
	allLocks  bool // also remove locks that are younger than staleLockAge
	remaining int  // how many more entries are examined
}

// remove removes the locks below the directory. It ignores errors, because the agent may have made entries that cannot
// be read or removed.
func (s *lockSearch) remove(dir string, depth int) {
	if s.remaining <= 0 {
		return
	}
	f, err := s.root.OpenFile(dir, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_DIRECTORY, 0)
	if err != nil {
		return
	}
	entries, _ := f.ReadDir(s.remaining)
	_ = f.Close()
	s.remaining -= len(entries)
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		switch {
		case strings.HasSuffix(e.Name(), ".lock"):
			if info, err := e.Info(); s.allLocks || err == nil && time.Since(info.ModTime()) > staleLockAge {
				_ = s.root.Remove(name)
			}
		case !e.IsDir() || depth == 0:
		case dir == "." && e.Name() == "objects": // it can have many entries, and locks in it stop only git's maintenance
		case dir == "." && (e.Name() == "lfs" || e.Name() == "hooks"): // neither git nor Git LFS creates locks there
		default:
			s.remove(name, depth-1)
		}
	}
}
