package pgtest

import (
	"net"

	"golang.org/x/sys/unix"
)

// dropPackets makes the connection drop all packets that arrive, without acknowledging them. It ignores errors.
func dropPackets(c *net.TCPConn) {
	conn, err := c.SyscallConn()
	if err != nil {
		return
	}
	nothing := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0}}
	_ = conn.Control(func(fd uintptr) {
		_ = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &nothing[0]})
	})
}
