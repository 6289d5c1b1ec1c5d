package app

import (
	"errors"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// reservedListener is a listener at 127.0.0.1 or ::1 that also reserves its port at the other address. Clients that connect to
// localhost try both addresses. Without the reservation, an agent that listens at the other address could impersonate the
// server.
type reservedListener struct {
	net.Listener

	other *os.File // a bound socket at the other address
}

// reserve returns a reservedListener, or l itself if l has another address or the port at the other address cannot be reserved.
func reserve(l net.Listener) net.Listener {
	addr, err := netip.ParseAddrPort(l.Addr().String())
	if err != nil {
		return l
	}
	family, other := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Port: int(addr.Port()), Addr: netip.IPv6Loopback().As16()})
	switch addr.Addr() {
	case netip.MustParseAddr("127.0.0.1"):
	case netip.IPv6Loopback():
		family, other = unix.AF_INET, &unix.SockaddrInet4{Port: int(addr.Port()), Addr: [4]byte{127, 0, 0, 1}}
	default:
		return l
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM, 0)
	if err != nil {
		return l
	}
	unix.CloseOnExec(fd)
	if err := unix.Bind(fd, other); err != nil { // a bound socket refuses connections, so clients then try the right address
		_ = unix.Close(fd)
		return l
	}
	return reservedListener{l, os.NewFile(uintptr(fd), "reserved")}
}

// Close closes the listener and releases the other address.
func (r reservedListener) Close() error { return errors.Join(r.Listener.Close(), r.other.Close()) }
