package sandbox

import (
	"errors"
	"fmt"
	"path/filepath"
)

// errLink is the error for a path with a symbolic link.
var errLink = errors.New("the path leads through a symbolic link")

// CheckPlain returns an error if the path contains symbolic links. Another program can add one right afterwards, so the
// check does not replace Policy.Write and OpenRoot.
func CheckPlain(dir string) error {
	real, err := filepath.EvalSymlinks(dir)
	if err == nil && real != filepath.Clean(dir) {
		err = fmt.Errorf("%s: %w", dir, errLink)
	}
	return err
}
