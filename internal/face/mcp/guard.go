package mcp

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"fleet/internal/face/wire"
)

// guard refuses what a web page that the user happens to visit could send: requests to a name that is not the
// server's, by which a page rebinds its own name to this machine, and requests from a foreign origin.
func guard(next http.Handler, c Config) (http.Handler, error) {
	origins := http.NewCrossOriginProtection()
	for _, o := range c.Origins {
		if err := origins.AddTrustedOrigin(o); err != nil {
			return nil, fmt.Errorf("mcp: origin %q: %w; write it as https://name or http://name:port", o, err)
		}
	}
	origins.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		writeError(w, http.StatusForbidden, wire.Error{
			Reason:  "PERMISSION_DENIED",
			Message: "Pages of the origin " + quote(r.Header.Get("Origin")) + " may not call this server; add the origin to the server's configuration if they should.",
		})
	}))
	hosts := map[string]bool{}
	for _, h := range c.Hosts {
		hosts[hostName(h)] = true
	}
	next = origins.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h := hostName(r.Host); !hosts[h] && !isLoopback(h) {
			writeError(w, http.StatusForbidden, wire.Error{
				Reason:  "PERMISSION_DENIED",
				Message: "This server does not answer to the name " + quote(r.Host) + "; use localhost, or add the name to the server's configuration.",
			})
			return
		}
		next.ServeHTTP(w, r)
	}), nil
}

// hostName returns the name or the address of a host, without its port, in the form in which it is compared.
func hostName(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// quote shows what a client sent, and not more than a line of it.
func quote(s string) string {
	const most = 80
	if len(s) > most {
		s = s[:most] + "..."
	}
	return fmt.Sprintf("%q", s)
}
