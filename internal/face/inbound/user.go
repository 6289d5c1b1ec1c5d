package inbound

import (
	"errors"
	"net"
	"net/netip"
)

// errNotFound means that no socket of a program is the other end of the connection.
var errNotFound = errors.New("the caller's socket is not in this machine's tables")

// ErrConfined means that the caller is a program in a sandbox, which has its user's id but not its rights.
var ErrConfined = errors.New("the caller is confined")

// userOf returns the user of the program at the other end of the connection.
func userOf(c net.Conn) (int, error) {
	local, err := netip.ParseAddrPort(c.LocalAddr().String())
	if err != nil {
		return 0, err
	}
	remote, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return 0, err
	}
	return socketUser(remote, local) // as the other end sees it
}
