package filetree

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// makeAccessible gives the owner of a directory all rights to it. It fails if name is a link.
func makeAccessible(parentFD int, name string) error {
	// An agent can replace the directory parentFD any time, so name is used only once. Before Linux 6.6, no system call changes the mode of a
	// file without following links.
	fd, err := unix.Openat(parentFD, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return unix.EACCES
	}
	defer func() { _ = unix.Close(fd) }()
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		return err
	}
	return unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), s.Mode&0o777|0o700)
}
