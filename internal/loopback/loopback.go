// Package loopback says which hosts are this machine. What is sent to them crosses no network, so it may be unencrypted,
// and what listens on them serves nobody else.
//
// The server, the client and the places use it. It resolves no names: the answer must not depend on DNS.
package loopback

import (
	"net"
	"net/netip"
	"strings"
)

// Is reports whether the host, without a port, is localhost or a loopback address.
func Is(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.Unmap().IsLoopback()
}

// IsAddress reports whether the host of a HOST:PORT is localhost or a loopback address.
func IsAddress(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && Is(host)
}
