//go:build !linux

package sqlite

import (
	"errors"
	"os"
)

// allocate does nothing, because disk space beyond a file's end can be allocated only on Linux.
func allocate(*os.File, int64) {}

// diskSpace returns ErrUnsupported, so the store never counts as full.
func diskSpace(string) (free, total uint64, err error) { return 0, 0, errors.ErrUnsupported }
