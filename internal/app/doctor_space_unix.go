//go:build linux || darwin

package app

import (
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"
)

// freeSpace returns the space that is free for this user on the disk of the directory, in bytes.
func freeSpace(dir string) (uint64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return s.Bavail * uint64(s.Bsize), nil //nolint:gosec // a size
}

// spaceOf returns the disk space that a file uses, in bytes. If the file has several names, it returns an equal part for each
// name.
func spaceOf(info fs.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(s.Blocks) * 512 / max(1, uint64(s.Nlink)) //nolint:gosec,unconvert // a size; the type depends on the system
	}
	return uint64(info.Size()) //nolint:gosec // a size
}
