//go:build !linux

package pgtest

import "net"

// dropPackets does nothing on this system.
func dropPackets(*net.TCPConn) {}
