package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// errLink is the error for a path with a symbolic link.
var errLink = errors.New("the path leads through a symbolic link")

// CheckNoSymlinks returns an error if the path contains symbolic links or does not exist. Another program can add a link right
// afterwards, so Policy.Write and OpenRoot check the path again.
func CheckNoSymlinks(dir string) error {
	resolved, err := filepath.EvalSymlinks(dir)
	if err == nil && resolved != filepath.Clean(dir) {
		err = fmt.Errorf("%s: %w", dir, errLink)
	}
	return err
}

// openChecked is OpenRoot for systems that cannot refuse links while they open a directory.
func openChecked(dir string) (*os.Root, error) {
	if err := CheckNoSymlinks(dir); err != nil {
		return nil, err
	}
	return os.OpenRoot(dir)
}
