// Package proxy lets a program without a network reach the addresses that its project allows. Package shim starts the
// proxy as a separate process, which is this executable under another name. The helper of package sandbox opens the
// proxy's socket in the program's network namespace, and passes the socket to the proxy. The proxy connects to the
// addresses from the machine's network. The proxy is confined, so that Fleet does not mistake it for the user who runs the
// server. The proxy must never connect to an address that the project does not list.
package proxy

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// dialTimeout limits how long the proxy tries to connect to an address, and how long the program may take to send the headers of
// a request.
const dialTimeout = 30 * time.Second

// proxy is an HTTP proxy for a list of addresses. It supports CONNECT.
type proxy struct {
	allowed   []string // in lower case
	dialer    net.Dialer
	forwarder http.Handler
}

// New returns a proxy that connects only to the allowed addresses. Each address has the form host:port.
func New(allowed []string) http.Handler {
	p := &proxy{dialer: net.Dialer{Timeout: dialTimeout}}
	for _, a := range allowed {
		p.allowed = append(p.allowed, strings.ToLower(a))
	}
	p.forwarder = &httputil.ReverseProxy{
		Rewrite:   func(*httputil.ProxyRequest) {}, // the request already names the address
		Transport: &http.Transport{DialContext: p.dialer.DialContext, ForceAttemptHTTP2: false},
	}
	return p
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	address := r.URL.Host
	switch {
	case r.Method == http.MethodConnect:
		address = r.Host
	case r.URL.Scheme != "http" || address == "":
		http.Error(w, "this is a proxy: use CONNECT, or name the address in the request", http.StatusBadRequest)
		return
	case r.URL.Port() == "":
		address = net.JoinHostPort(r.URL.Hostname(), "80")
	}
	if !slices.Contains(p.allowed, strings.ToLower(address)) {
		http.Error(w, fmt.Sprintf("the project does not allow %s: add it to network.allow of the project, which has %s", address, strings.Join(p.allowed, ", ")), http.StatusForbidden)
		return
	}
	if r.Method == http.MethodConnect {
		p.tunnel(w, r, address)
		return
	}
	p.forwarder.ServeHTTP(w, r)
}

// tunnel connects the program to the address, and copies data in both directions until both sides have ended.
func (p *proxy) tunnel(w http.ResponseWriter, r *http.Request, address string) {
	to, err := p.dialer.DialContext(r.Context(), "tcp", address)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer func() { _ = to.Close() }()
	from, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer func() { _ = from.Close() }()
	if _, err := io.WriteString(from, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { copyAndClose(to, buffered) })
	both.Go(func() { copyAndClose(from, to) })
	both.Wait()
}

// copyAndClose copies all data, and then closes the writing side of to.
func copyAndClose(to net.Conn, from io.Reader) {
	_, _ = io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// serve is the main function of the proxy's process. list is a JSON list of the allowed addresses. serve returns only
// if it fails; otherwise a signal ends the process.
func serve(list string) error {
	var allowed []string
	if err := json.Unmarshal([]byte(list), &allowed); err != nil {
		return err
	}
	l, err := receiveListener(os.NewFile(3, "helper"))
	if err != nil {
		return err
	}
	s := &http.Server{Handler: New(allowed), ReadHeaderTimeout: dialTimeout}
	return s.Serve(l)
}
