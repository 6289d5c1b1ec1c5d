package mcp

import (
	"os"

	"golang.org/x/sys/unix"
)

// unread returns how many bytes written to the pipe or socket the other end has not read. known is false if the system cannot
// tell.
func unread(f *os.File) (n int, known bool) {
	if f == nil {
		return 0, false
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return 0, false
	}
	var ioctlErr error
	err = conn.Control(func(fd uintptr) {
		// Node starts its children with sockets, other programs with pipes. Each needs its own ioctl.
		if n, ioctlErr = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ); ioctlErr != nil {
			n, ioctlErr = unix.IoctlGetInt(int(fd), unix.SIOCINQ)
		}
	})
	return n, err == nil && ioctlErr == nil
}
