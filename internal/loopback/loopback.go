// Package loopback reports which hosts are this machine. Data sent to such a host does not cross a network, so it may
// be unencrypted. A program that listens on such a host cannot be reached from other machines.
//
// The server, the client and the places use this package. It resolves no names, because the answer must not depend on
// DNS.
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

// DialAddress returns the HOST:PORT at which programs on this machine reach a listener at the address. If the listener uses
// all addresses, the result is a loopback address, and not localhost, because another program could listen at another address of
// localhost. Otherwise the result is the address itself.
func DialAddress(address string) string {
	host, port, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	switch {
	case err != nil || host != "" && !ip.IsUnspecified():
		return address
	case host != "" && ip.To4() == nil:
		return net.JoinHostPort("::1", port)
	}
	return net.JoinHostPort("127.0.0.1", port)
}
