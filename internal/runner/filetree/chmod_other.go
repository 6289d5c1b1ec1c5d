//go:build unix && !linux

package filetree

import "golang.org/x/sys/unix"

// makeAccessible gives the owner of a directory all rights to it. It fails if name is a link.
func makeAccessible(at int, name string) error {
	var s unix.Stat_t
	if err := unix.Fstatat(at, name, &s, unix.AT_SYMLINK_NOFOLLOW); err != nil || s.Mode&unix.S_IFMT != unix.S_IFDIR {
		return unix.EACCES
	}
	return unix.Fchmodat(at, name, uint32(s.Mode)&0o777|0o700, unix.AT_SYMLINK_NOFOLLOW) //nolint:unconvert // the type depends on the system
}
