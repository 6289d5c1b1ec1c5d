package shim

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// maxSocketPath is the longest path of a socket that is connected to as it is, in bytes; the system's limit is 107.
const maxSocketPath = 100

// short returns a path of the socket that is not too long to connect to, good until clean is called.
func short(path string) (brief string, clean func(), err error) {
	if len(path) <= maxSocketPath {
		return path, func() {}, nil
	}
	dir, err := os.OpenFile(filepath.Dir(path), syscall.O_DIRECTORY, 0)
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)), func() { _ = dir.Close() }, nil
}
