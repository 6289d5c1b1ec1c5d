//go:build unix && !linux

package shim

import (
	"os"
	"path/filepath"
)

// maxSocketPath is the longest path of a socket, in bytes, that is used directly. The system's limit is 103.
const maxSocketPath = 100

// shortSocket returns a path of the socket that is short enough to connect to. It is valid until clean is called.
func shortSocket(path string) (short string, clean func(), err error) {
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
