package inbound

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"

	"fleet/internal/face/wire"
	"fleet/internal/loopback"
)

// Guard returns a handler that refuses requests that a foreign web page could make a browser send: requests for a host
// that is not this server (DNS rebinding), and requests from another origin that could change something. Reading across
// origins needs no check, because without CORS headers the browser does not show the answer to the page.
//
// hosts are the names, without a port, under which clients reach the server. Loopback names always work, and so does the
// address at which the connection arrived: a page that is loaded from there is a page of this server. If isOpen returns
// true for the path of a request, the request is not checked, because orchestrators call probes by any address.
func Guard(next http.Handler, hosts []string, isOpen func(path string) bool) http.Handler {
	knownHosts := map[string]bool{}
	for _, h := range hosts {
		knownHosts[hostName(h)] = true
	}
	origins := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isOpen(r.URL.Path) {
			if h := hostName(r.Host); !knownHosts[h] && !isLoopbackName(h) && !isLocal(r, h) {
				refuse(w, "host", r.Host, "this server does not answer to the name %s; use localhost, or add the name to allowed_hosts in the server's configuration")
				return
			}
			if origins.Check(r) != nil {
				refuse(w, "origin", r.Header.Get("Origin"), "a web page of another origin, %s, may not call this server; call it from a program, or from a page of this server")
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// refuse answers with PERMISSION_DENIED. The format has one %s, for the quoted value.
func refuse(w http.ResponseWriter, key, value, format string) {
	value = wire.Shorten(value)
	wire.WriteErrorObject(w, http.StatusForbidden, wire.Error{
		Reason: "PERMISSION_DENIED", Message: fmt.Sprintf(format, strconv.Quote(value)), Details: map[string]any{key: value},
	})
}

// hostName returns the name or address of a host without its port, normalized for comparison.
func hostName(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
}

// isLocal reports whether host is the address of this machine at which the request's connection arrived.
func isLocal(r *http.Request, host string) bool {
	at, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	ip := net.ParseIP(host)
	return ok && ip != nil && at.IP.Equal(ip)
}

// isLoopbackName reports whether the name can only mean the client's own machine. Names below localhost resolve to
// loopback too (RFC 6761, section 6.3).
func isLoopbackName(host string) bool {
	return loopback.Is(host) || strings.HasSuffix(host, ".localhost")
}
