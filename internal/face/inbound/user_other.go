//go:build !linux

package inbound

import (
	"net"
	"net/netip"
)

// CanFindUser reports whether Conn.User works on this system.
const CanFindUser = false

// socketUser finds no user on this system.
func socketUser(_, _ netip.AddrPort) (int, error) { return 0, errSocketNotFound }

// isEstablished is not needed, because no user is found.
func isEstablished(*net.TCPConn) bool { return true }
