package worktree

import (
	"errors"
	"io/fs"
	"os"
	"regexp"
	"time"
)

// staleLockAge is the age from which an empty lock of a ref counts as left by a git that was killed.
const staleLockAge = 3 * time.Second

// lockedRefPattern matches git's message about a lock that another git holds.
var lockedRefPattern = regexp.MustCompile(`Unable to create '(.*/(?:refs/.*|HEAD)\.lock)': File exists`)

// removeStaleRefLock reports whether the git command that failed with err should be repeated, because the lock of a ref prevented it
// and no longer exists. It waits until the lock is staleLockAge old, and then removes it if it is empty. A git that is killed just
// after it has created a lock leaves an empty one. A running git writes to its lock immediately.
func removeStaleRefLock(err error) bool {
	m := lockedRefPattern.FindStringSubmatch(err.Error())
	if m == nil {
		return false
	}
	for {
		info, err := os.Lstat(m[1])
		switch {
		case err != nil:
			return errors.Is(err, fs.ErrNotExist)
		case !info.Mode().IsRegular() || info.Size() > 0:
			return false
		}
		if wait := staleLockAge - time.Since(info.ModTime()); wait > 0 {
			time.Sleep(min(wait, lockPollInterval))
			continue
		}
		return os.Remove(m[1]) == nil
	}
}
