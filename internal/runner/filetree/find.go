//go:build unix

package filetree

import (
	"path/filepath"
	"strings"
)

// Find returns the first path that matches the path/filepath pattern, or an empty path if there is none. The agent controls the
// directory, so the path proves only that a file with this name exists.
func Find(pattern string) (string, error) {
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) == 0 {
		return "", err
	}
	return found[0], nil
}

// PatternRoot returns a directory that contains everything that Find must read for the pattern.
func PatternRoot(pattern string) string {
	dir := filepath.Dir(pattern)
	for strings.ContainsAny(dir, `*?[`) {
		dir = filepath.Dir(dir)
	}
	return strings.ReplaceAll(dir, `\`, "")
}
