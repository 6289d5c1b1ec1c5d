//go:build !linux && !darwin

package app

import (
	"errors"
	"io/fs"
)

// freeSpace returns errors.ErrUnsupported: it cannot find out the free disk space on this system.
func freeSpace(string) (uint64, error) { return 0, errors.ErrUnsupported }

// spaceOf returns the size of the file in bytes.
func spaceOf(info fs.FileInfo) uint64 { return uint64(info.Size()) } //nolint:gosec // a size
