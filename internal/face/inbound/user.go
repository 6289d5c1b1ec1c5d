package inbound

import (
	"errors"
	"net"
	"net/netip"
)

// errNotFound means that no local program holds the other end of the connection.
var errNotFound = errors.New("the caller's socket is not in this machine's tables")

// ErrConfined means that the caller is a sandboxed program. It has its user's id, but not the user's rights.
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
	return socketUser(remote, local) // swapped: as the other end sees them
}
