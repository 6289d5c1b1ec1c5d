package shim

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// maxSocketPath is the longest path of a socket, in bytes, that is used directly. The system's limit is 107.
const maxSocketPath = 100

// shortSocket returns a path of the socket that is short enough to connect to. It is valid until clean is called.
func shortSocket(path string) (short string, clean func(), err error) {
	if len(path) <= maxSocketPath {
		return path, func() {}, nil
	}
	dir, err := os.OpenFile(filepath.Dir(path), syscall.O_DIRECTORY, 0)
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)), func() { _ = dir.Close() }, nil
}
