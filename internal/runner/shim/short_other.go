//go:build unix && !linux

package shim

import (
	"os"
	"path/filepath"
)

// maxSocketPath is the longest path of a socket that is connected to as it is, in bytes; the system's limit is 103.
const maxSocketPath = 100

// short returns a path of the socket that is not too long to connect to, good until clean is called.
func short(path string) (brief string, clean func(), err error) {
	if len(path) <= maxSocketPath {
		return path, func() {}, nil
	}
	dir, err := os.MkdirTemp("/tmp", "fleet-")
	if err != nil {
		return "", nil, err
	}
	link := filepath.Join(dir, "run")
	clean = func() { _ = os.Remove(link); _ = os.Remove(dir) }
	if err := os.Symlink(filepath.Dir(path), link); err != nil {
		clean()
		return "", nil, err
	}
	return filepath.Join(link, filepath.Base(path)), clean, nil
}
