//go:build linux || darwin

package app

import "golang.org/x/sys/unix"

// freeSpace returns the disk space that is free for this user, in bytes.
func freeSpace(dir string) (uint64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return s.Bavail * uint64(s.Bsize), nil //nolint:gosec // a size
}
