package cagent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
)

// errInside is the error of a connection to the server's own networks that nobody has allowed.
var errInside = errors.New("not a public address, and nobody has allowed it")

// guardian knows the address ranges that are not public, as IANA lists them.
var guardian = ssrf.New(ssrf.WithAnyPort())

// publicOnly is a Control function of net.Dialer. It sees the address that is about to be dialed, after DNS, and so also
// where a redirect leads.
func publicOnly(_ context.Context, _, address string, _ syscall.RawConn) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%q is not an address: %w", address, errInside)
	}
	if !public(a.Addr()) {
		return fmt.Errorf("%s: %w", a.Addr(), errInside)
	}
	return nil
}

// public reports whether the address is on the public internet. An IPv4 address in the form of an IPv6 one is judged by
// the IPv4 address, where the form is one that connects to it: IPv4-mapped, or NAT64.
func public(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	if ssrf.IPv6NAT64Prefix.Contains(ip) {
		b := ip.As16()
		ip = netip.AddrFrom4([4]byte(b[12:]))
	}
	return guardian.SafeAddr(ip) == nil
}

// outward returns a transport that connects to public addresses, and to the hosts that inside names, as host or
// host:port. Where a proxy of the environment is used, the proxy resolves names, so only addresses are checked here.
func outward(inside ...string) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	allowed := func(host, port string) bool {
		return slices.ContainsFunc(inside, func(h string) bool {
			return strings.EqualFold(h, host) || strings.EqualFold(h, net.JoinHostPort(host, port))
		})
	}
	var proxies sync.Map
	t.Proxy = func(r *http.Request) (*url.URL, error) {
		u, err := http.ProxyFromEnvironment(r)
		if err != nil || u == nil {
			return u, err
		}
		if ip, err := netip.ParseAddr(r.URL.Hostname()); err == nil && !allowed(r.URL.Hostname(), r.URL.Port()) && !public(ip) {
			return nil, fmt.Errorf("%s: %w", ip, errInside)
		}
		proxies.Store(u.Hostname(), true)
		return u, nil
	}
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		d := net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		if _, proxy := proxies.Load(host); !proxy && !allowed(host, port) {
			d.ControlContext = publicOnly
		}
		return d.DialContext(ctx, network, address)
	}
	return t
}

// hostOf is the host of an address, without its port; empty when it is none.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Hostname()
}
