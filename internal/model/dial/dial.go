// Package dial connects to hosts that definitions and callers name. These hosts must be on the public internet, unless the
// configuration allows them. Otherwise a definition could reach services on the networks of the server.
package dial

import (
	"cmp"
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

// ErrNotPublic means that the address is not on the public internet and that the configuration does not allow it.
var ErrNotPublic = errors.New("not a public address, and not allowed by the configuration")

// addressGuard distinguishes public addresses from the ranges that the IANA registries list as not public.
var addressGuard = ssrf.New(ssrf.WithAnyPort())

// requirePublic is a ControlContext function for net.Dialer. It checks the resolved address of each connection, including
// connections after a redirect.
func requirePublic(_ context.Context, _, address string, _ syscall.RawConn) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%q is not an address: %w", address, ErrNotPublic)
	}
	if !IsPublic(a.Addr()) {
		return fmt.Errorf("%s: %w", a.Addr(), ErrNotPublic)
	}
	return nil
}

// IsPublic reports whether the address is on the public internet. For an IPv6 address that connects to an IPv4 address
// (IPv4-mapped, NAT64), the IPv4 address decides.
func IsPublic(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	if ssrf.IPv6NAT64Prefix.Contains(ip) {
		b := ip.As16()
		ip = netip.AddrFrom4([4]byte(b[12:]))
	}
	return addressGuard.SafeAddr(ip) == nil
}

// PublicTransport returns a transport that connects only to public addresses and to the hosts in allowedHosts, given as host or
// host:port. A proxy from the environment resolves names itself, so with a proxy only URLs with a literal address are checked
// here.
func PublicTransport(allowedHosts ...string) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	isAllowed := func(host, port string) bool {
		return slices.ContainsFunc(allowedHosts, func(h string) bool {
			return strings.EqualFold(h, host) || strings.EqualFold(h, net.JoinHostPort(host, port))
		})
	}
	var proxies sync.Map // addresses of the proxies that requests have used
	t.Proxy = func(r *http.Request) (*url.URL, error) {
		u, err := http.ProxyFromEnvironment(r)
		if err != nil || u == nil {
			return u, err
		}
		if ip, err := netip.ParseAddr(r.URL.Hostname()); err == nil && !isAllowed(r.URL.Hostname(), r.URL.Port()) && !IsPublic(ip) {
			return nil, fmt.Errorf("%s: %w", ip, ErrNotPublic)
		}
		proxies.Store(proxyAddress(u), true)
		return u, nil
	}
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		d := net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		if _, isProxy := proxies.Load(address); !isProxy && !isAllowed(host, port) {
			d.ControlContext = requirePublic
		}
		return d.DialContext(ctx, network, address)
	}
	return t
}

// proxyAddress returns the address at which the transport connects to the proxy.
func proxyAddress(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "socks5": "1080", "socks5h": "1080"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), cmp.Or(port, "80"))
}

// Host returns the host of a URL, without its port. It returns "" if the URL is invalid.
func Host(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Hostname()
}
