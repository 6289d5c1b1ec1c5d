package rest

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"fleet/internal/face/wire"
)

// guard keeps foreign web pages out. A browser sends whatever a page asks it to, so a server on the visitor's machine
// must tell its own users from any page they visit.
type guard struct {
	hosts  map[string]bool
	origin *http.CrossOriginProtection
}

func newGuard(hosts []string) *guard {
	g := &guard{hosts: map[string]bool{}, origin: http.NewCrossOriginProtection()}
	for _, h := range hosts {
		g.hosts[canonical(h)] = true
	}
	return g
}

// check refuses requests for a host that is not this server, and requests by a browser that would change something and
// come from another origin. Reading across origins needs no refusal: without CORS headers a browser gives the page
// nothing of the answer.
func (g *guard) check(r *http.Request) error {
	if !g.knows(r.Host) {
		return &refusal{http.StatusForbidden, wire.Error{
			Reason: permissionDenied,
			Message: fmt.Sprintf("This server is not %q. Ask for it by a loopback name, such as localhost, or have its operator add the name to the hosts it serves.",
				cut(r.Host)),
			Details: map[string]any{"host": cut(r.Host)},
		}}
	}
	if g.origin.Check(r) != nil {
		return &refusal{http.StatusForbidden, wire.Error{
			Reason:  permissionDenied,
			Message: "A web page of another origin may not do this. Call the API from a program, or from a page of this server.",
			Details: map[string]any{"origin": cut(r.Header.Get("Origin"))},
		}}
	}
	return nil
}

func (g *guard) knows(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = canonical(host)
	if host == "localhost" || strings.HasSuffix(host, ".localhost") || g.hosts[host] {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.Unmap().IsLoopback()
}

func canonical(host string) string {
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}
