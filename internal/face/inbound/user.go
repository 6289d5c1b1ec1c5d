package inbound

import (
	"errors"
	"net"
)

// errSocketNotFound means that no local program holds the other end of the connection.
var errSocketNotFound = errors.New("the caller's socket is not in this machine's tables")

// errHidden means that a confined program may hold the other end of the connection.
var errHidden = errors.New("a confined process hides whether it holds the caller's socket")

// ErrConfined means that the caller is a sandboxed program. It has its user's id, but not the user's rights.
var ErrConfined = errors.New("the caller is confined")

// ErrDisconnected means that the caller has closed the connection, so the system no longer knows whose it was.
var ErrDisconnected = errors.New("the caller has closed the connection")

// maxLookups is how often a caller is looked up if it is not found although the connection is open. The caller may be closing
// the connection: there is a moment between the end of its last file descriptor and the end of the connection.
const maxLookups = 3

// userOf returns the id of the user whose program is at the other end of the connection. The error is ErrDisconnected, ErrConfined,
// errSocketNotFound or errHidden, or says why the tables of the system cannot be read.
func userOf(c *net.TCPConn) (user int, err error) {
	local, _ := c.LocalAddr().(*net.TCPAddr)
	remote, _ := c.RemoteAddr().(*net.TCPAddr)
	for range maxLookups {
		// The addresses are swapped, because the other end sees them so.
		if user, err = socketUser(remote.AddrPort(), local.AddrPort()); !errors.Is(err, errSocketNotFound) {
			return user, err
		}
		if !isEstablished(c) {
			return 0, errors.Join(ErrDisconnected, err)
		}
	}
	return 0, err
}
