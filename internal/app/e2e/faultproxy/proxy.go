// Package faultproxy is a proxy between an HTTP client and its server. It counts requests and simulates a bad network:
// it adds latency, answers in place of the server, cuts connections in the middle of an answer, and can block all
// traffic.
package faultproxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// Faults configures the simulated faults. The zero value has none.
type Faults struct {
	Latency time.Duration // added before a request is passed on
	Slow    float64       // fraction of requests with the latency, 0 to 1
	Refuse  float64       // fraction of requests answered with 502; half of these reach the server first
	Cut     float64       // fraction of requests whose connection is closed after at most 799 bytes of the answer's body, if the body is longer
}

// Stats counts requests, faults and connections since the proxy was started.
type Stats struct {
	Requests            int
	Slow                int // requests with the latency
	Refused             int // requests answered with 502 that did not reach the server
	RefusedAfter        int // requests answered with 502 that reached the server
	Cut                 int // requests with an answer to be cut
	OpenConns, MaxConns int // current client connections, and the maximum
}

// Exchange is a request that the server has answered, whether or not the client received the answer.
type Exchange struct {
	Method, Path string
	Body         []byte // of the request; nil for GET
	Status       int    // of the server's answer
}

// Proxy is a proxy that listens on its own loopback port.
type Proxy struct {
	server     *http.Server
	listener   net.Listener
	reverse    *httputil.ReverseProxy
	onExchange func(Exchange)

	mu        sync.Mutex
	random    *rand.Rand
	faults    Faults
	stats     Stats
	blackhole chan struct{} // data is held back until it is closed
	conns     map[*conn]bool
}

// New starts a proxy for the server at target. The seed determines which requests get faults, by their order. onExchange, if not
// nil, is called for each request that the server has answered, also concurrently.
func New(target string, seed uint64, onExchange func(Exchange)) (*Proxy, error) {
	u, err := url.Parse(target)
	if err != nil {
		return nil, err
	}
	p := &Proxy{random: rand.New(rand.NewPCG(seed, seed)), blackhole: make(chan struct{}), onExchange: onExchange, conns: map[*conn]bool{}}
	close(p.blackhole)
	if p.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	quiet := log.New(io.Discard, "", 0) // errors are expected here
	p.reverse = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(u); r.Out.Host = r.In.Host },
		Transport:     &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute},
		FlushInterval: -1, ErrorLog: quiet,
		ModifyResponse: p.modifyResponse,
		ErrorHandler:   func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	p.server = &http.Server{Handler: p, ErrorLog: quiet, ReadHeaderTimeout: time.Minute}
	go func() { _ = p.server.Serve(listener{p.listener, p}) }()
	return p, nil
}

// URL returns the proxy's address.
func (p *Proxy) URL() string { return "http://" + p.listener.Addr().String() }

// SetFaults sets the faults of future requests.
func (p *Proxy) SetFaults(f Faults) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = f
}

// Blackhole blocks all data in both directions, and returns when ctx is done. Clients can still open connections meanwhile. Only one call may be
// active.
func (p *Proxy) Blackhole(ctx context.Context) {
	hole := make(chan struct{})
	p.mu.Lock()
	p.blackhole = hole
	p.mu.Unlock()
	<-ctx.Done()
	close(hole)
}

// CloseConns breaks all client connections.
func (p *Proxy) CloseConns() {
	p.mu.Lock()
	all := slices.Collect(maps.Keys(p.conns))
	p.mu.Unlock()
	for _, c := range all {
		_ = c.Close()
	}
}

// Stats returns the counts.
func (p *Proxy) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

// Close closes the proxy and all connections.
func (p *Proxy) Close() error {
	err := p.server.Close()
	p.reverse.Transport.(*http.Transport).CloseIdleConnections()
	return err
}

// fault describes the fault that is injected into one request.
type fault struct {
	delay       time.Duration
	refuse      bool   // answer with an error
	afterServer bool   // refuse only after the server has answered
	cut         int    // end the answer's body after this many bytes; -1: do not cut it
	body        []byte // of the request, for onExchange
}

// faultKey is the key of the *fault in the context of a request.
type faultKey struct{}

// nextFault chooses the fault of the next request, and counts both.
func (p *Proxy) nextFault() fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Requests++
	f := fault{cut: -1}
	if p.random.Float64() < p.faults.Slow {
		f.delay = p.faults.Latency
		p.stats.Slow++
	}
	switch chance := p.random.Float64(); {
	case chance < p.faults.Refuse/2:
		f.refuse = true
		p.stats.Refused++
	case chance < p.faults.Refuse:
		f.refuse, f.afterServer = true, true
		p.stats.RefusedAfter++
	case chance < p.faults.Refuse+p.faults.Cut:
		f.cut = p.random.IntN(800)
		p.stats.Cut++
	}
	return f
}

// ServeHTTP passes the request on to the server, with the next fault.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f := p.nextFault()
	ctx := r.Context()
	if r.Method != http.MethodGet {
		// The server gets the whole request even if the client disconnects before the answer.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		f.body, r.Body = body, io.NopCloser(bytes.NewReader(body))
	}
	if f.delay > 0 {
		select {
		case <-time.After(f.delay):
		case <-ctx.Done():
			panic(http.ErrAbortHandler)
		}
	}
	if f.refuse && !f.afterServer {
		refuse(w)
		return
	}
	p.reverse.ServeHTTP(w, r.WithContext(context.WithValue(ctx, faultKey{}, &f)))
}

const badGatewayPage = "<html><body><h1>502 Bad Gateway</h1></body></html>"

func refuse(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/html")
	w.WriteHeader(http.StatusBadGateway)
	_, _ = io.WriteString(w, badGatewayPage)
}

// modifyResponse applies the request's fault to the server's answer.
func (p *Proxy) modifyResponse(res *http.Response) error {
	f, _ := res.Request.Context().Value(faultKey{}).(*fault)
	if f == nil {
		return nil
	}
	if p.onExchange != nil {
		p.onExchange(Exchange{Method: res.Request.Method, Path: res.Request.URL.Path, Body: f.body, Status: res.StatusCode})
	}
	if f.refuse {
		_ = res.Body.Close()
		res.StatusCode, res.Status = http.StatusBadGateway, "502 Bad Gateway"
		res.Header = http.Header{"Content-Type": {"text/html"}}
		res.Body, res.ContentLength = io.NopCloser(strings.NewReader(badGatewayPage)), int64(len(badGatewayPage))
	}
	if f.cut >= 0 && res.StatusCode != http.StatusSwitchingProtocols {
		res.Body = &cutBody{ReadCloser: res.Body, remaining: f.cut}
	}
	return nil
}

var errCut = errors.New("the connection is cut")

// cutBody ends early, which makes the proxy cut the connection.
type cutBody struct {
	io.ReadCloser
	remaining int // bytes
}

func (c *cutBody) Read(b []byte) (int, error) {
	if c.remaining <= 0 {
		return 0, errCut
	}
	n, err := c.ReadCloser.Read(b[:min(len(b), c.remaining)])
	c.remaining -= n
	return n, err
}
