//go:build unix

package filetree

import (
	"path/filepath"
	"strings"
)

// Find returns the first path that the pattern of path/filepath matches, or an empty path. The agent controls the directory,
// so the path proves only that a file with this name exists.
func Find(pattern string) (string, error) {
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) == 0 {
		return "", err
	}
	return found[0], nil
}

// PatternRoot returns the directory below which Find searches.
func PatternRoot(pattern string) string {
	dir := filepath.Dir(pattern)
	for strings.ContainsAny(dir, `*?[`) {
		dir = filepath.Dir(dir)
	}
	return strings.ReplaceAll(dir, `\`, "")
}
