package worktree

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxHooks limits the number of files in a directory of hooks that are copied.
const maxHooks = 1000

// copyHooks copies the repository's hooks, so that they run when the agent commits. It also copies the other files
// there, because hooks use them. It leaves out files beyond maxHooks files or maxCopied bytes in total.
func copyHooks(from, to string) error {
	remaining, files := int64(maxCopied), 0
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			if d != nil && d.IsDir() {
				return fs.SkipDir // the repository has no hooks, or the server may not read them
			}
			return nil
		}
		name, err := filepath.Rel(from, path)
		if err != nil || d.IsDir() {
			return err
		}
		info, err := os.Stat(path) // hooks are often symbolic links
		if err != nil || !info.Mode().IsRegular() || info.Size() > remaining || strings.HasSuffix(name, ".sample") {
			return nil //nolint:nilerr // not a hook
		}
		if remaining, files = remaining-info.Size(), files+1; files > maxHooks {
			return fs.SkipAll
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return nil //nolint:nilerr // the server may not read it
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o700); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), b, 0o600|info.Mode().Perm()&0o100)
	})
}
