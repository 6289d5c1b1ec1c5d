package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// errLink is the error for a path with a symbolic link.
var errLink = errors.New("the path leads through a symbolic link")

// CheckNoSymlinks returns an error if the path contains symbolic links. Another program can add one right afterwards, so the
// check does not replace Policy.Write and OpenRoot.
func CheckNoSymlinks(dir string) error {
	real, err := filepath.EvalSymlinks(dir)
	if err == nil && real != filepath.Clean(dir) {
		err = fmt.Errorf("%s: %w", dir, errLink)
	}
	return err
}

// openChecked is OpenRoot where the system cannot refuse links while it opens the directory.
func openChecked(dir string) (*os.Root, error) {
	if err := CheckNoSymlinks(dir); err != nil {
		return nil, err
	}
	return os.OpenRoot(dir)
}
