package coder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coder/coder/v2/codersdk"

	"fleet/internal/runner/agentapi"
)

// How long things may take.
const (
	requestTime = 20 * time.Second // one request and its answer
	retryPause  = 250 * time.Millisecond
	maxThrottle = time.Minute // the longest that Fleet believes a Retry-After
)

// throttledError says that Coder wants to be left alone for a while.
type throttledError struct{ after time.Duration }

func (e *throttledError) Error() string {
	return fmt.Sprintf("Coder's rate limit is reached, for %s", e.after.Round(time.Second))
}

// tokenError says that there is no token to send.
type tokenError struct{ error }

func (e tokenError) Unwrap() error { return e.error }

// gate is what all requests to a deployment go through: it respects its rate limit, and tells its clock.
type gate struct {
	base http.RoundTripper
	now  func() time.Time
	wait func(context.Context, time.Duration) error

	mu    sync.Mutex
	until time.Time     // no request before
	skew  time.Duration // how far Coder's clock is ahead of Fleet's
}

func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		ForceAttemptHTTP2:     true,
		MaxIdleConns:          64,
		MaxIdleConnsPerHost:   16,
		IdleConnTimeout:       60 * time.Second,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
	}
}

// roundTrip sends the request. One that only reads is sent once more when nobody that matters has answered.
func (g *gate) roundTrip(r *http.Request) (*http.Response, error) {
	if err := g.open(); err != nil {
		return nil, err
	}
	res, err := g.base.RoundTrip(r)
	if r.Method == http.MethodGet && r.Context().Err() == nil && again(res, err) {
		if res != nil {
			drain(res.Body)
		}
		if err := g.wait(r.Context(), retryPause); err != nil {
			return nil, err
		}
		res, err = g.base.RoundTrip(r)
	}
	if err != nil {
		return nil, err
	}
	g.read(res)
	if res.StatusCode == http.StatusTooManyRequests {
		drain(res.Body)
		return nil, g.close(res.Header.Get("Retry-After"))
	}
	return res, nil
}

func again(res *http.Response, err error) bool {
	if err != nil {
		return true
	}
	switch res.StatusCode {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// open reports whether requests may be sent.
func (g *gate) open() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if left := g.until.Sub(g.now()); left > 0 {
		return &throttledError{after: left}
	}
	return nil
}

// close keeps requests back for as long as Coder said.
func (g *gate) close(retryAfter string) error {
	after := 5 * time.Second
	if n, err := strconv.Atoi(retryAfter); err == nil && n > 0 {
		after = min(time.Duration(n)*time.Second, maxThrottle)
	} else if at, err := http.ParseTime(retryAfter); err == nil {
		after = min(max(at.Sub(g.now()), time.Second), maxThrottle)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.until = g.now().Add(after)
	return &throttledError{after: after}
}

// read takes in what the clock at the other end says.
func (g *gate) read(res *http.Response) {
	if strings.HasPrefix(res.Request.URL.Path, "/@") {
		return // an agent's clock
	}
	skew := agentapi.ClockSkew(res, g.now())
	g.mu.Lock()
	defer g.mu.Unlock()
	g.skew = skew
}

// ahead is how far Coder's clock is ahead of Fleet's.
func (g *gate) ahead() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.skew
}

// account is a Coder user that Fleet can act as.
type account struct {
	gate  *gate
	token func(context.Context) (string, error)
	http  *http.Client
	sdk   *codersdk.Client
}

func (b *Place) newAccount(token func(context.Context) (string, error)) *account {
	a := &account{gate: b.gate, token: token}
	a.http = &http.Client{
		Transport: a,
		// Coder answers a request without a good token with the way to its login page.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	a.sdk = codersdk.New(b.url, codersdk.WithHTTPClient(a.http))
	return a
}

// RoundTrip implements http.RoundTripper: it adds the token.
func (a *account) RoundTrip(r *http.Request) (*http.Response, error) {
	token, err := a.token(r.Context())
	if err != nil {
		return nil, tokenError{err}
	}
	r = r.Clone(r.Context())
	r.Header.Set(codersdk.SessionTokenHeader, token)
	return a.gate.roundTrip(r)
}

// drain reads the rest of an answer, within reason, so that its connection can be used again.
func drain(body io.ReadCloser) {
	_, _ = io.Copy(io.Discard, io.LimitReader(body, 64<<10))
	_ = body.Close()
}

// pause waits for d, or until ctx is done.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ask makes one call of the API, in bounded time, and translates its error. what says in words what was wanted.
func ask[T any](ctx context.Context, what string, call func(context.Context) (T, error)) (T, error) {
	bounded, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	v, err := call(bounded)
	if err == nil {
		return v, nil
	}
	var none T
	if ctx.Err() != nil {
		return none, ctx.Err()
	}
	if bounded.Err() != nil && !errors.Is(err, context.DeadlineExceeded) {
		err = bounded.Err()
	}
	return none, translate(what, err)
}
