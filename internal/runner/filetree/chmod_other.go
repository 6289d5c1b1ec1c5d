//go:build unix && !linux

package filetree

import "golang.org/x/sys/unix"

// makeAccessible gives the owner of a directory all rights to it. It fails if name is a link.
func makeAccessible(parentFD int, name string) error {
	var s unix.Stat_t
	if err := unix.Fstatat(parentFD, name, &s, unix.AT_SYMLINK_NOFOLLOW); err != nil || s.Mode&unix.S_IFMT != unix.S_IFDIR {
		return unix.EACCES
	}
	return unix.Fchmodat(parentFD, name, uint32(s.Mode)&0o777|0o700, unix.AT_SYMLINK_NOFOLLOW) //nolint:unconvert // the type depends on the system
}
