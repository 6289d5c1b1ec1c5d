package coder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"fleet/internal/runner/agentapi"
)

const (
	requestTimeout = 20 * time.Second       // limit for one request and its response
	retryPause     = 250 * time.Millisecond // pause before a GET is sent again
	maxThrottle    = time.Minute            // the longest Retry-After that Fleet respects
)

// throttledError means that Coder's rate limit is reached.
type throttledError struct{ after time.Duration }

func (e *throttledError) Error() string {
	return fmt.Sprintf("Coder's rate limit is reached: Coder accepts requests again in %s", e.after.Round(time.Second))
}

// ErrToken is the cause of errors about Fleet's token: there is none, or Coder does not accept it. These errors are
// BACKEND_UNAVAILABLE, because nothing was delivered, and a retry with a valid token can succeed.
var ErrToken = errors.New("no valid Coder token")

// tokenError means that Fleet has no token, or a token that Coder does not accept.
type tokenError struct{ error }

func (e tokenError) Unwrap() error { return e.error }

// proxyError means that a response is not from Coder, but from something in front of it, such as a proxy or a login page.
// Nothing can be concluded from its status.
type proxyError struct{ status int }

func (e *proxyError) Error() string {
	return fmt.Sprintf("something in front of Coder answers with status %d, and not Coder itself", e.status)
}

// isFromCoder reports whether a response of the API is from Coder, which responds with JSON or events.
func isFromCoder(res *http.Response) bool {
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	return kind == "application/json" || kind == "text/event-stream" || res.StatusCode == http.StatusNoContent
}

// throttle sends all requests to a deployment. It respects the rate limit of the deployment's API, and measures how far Coder's clock is
// ahead of Fleet's clock.
type throttle struct {
	base  http.RoundTripper
	now   func() time.Time
	sleep func(context.Context, time.Duration) error

	mu             sync.Mutex
	suspendedUntil time.Time     // no request is sent before this time
	skew           time.Duration // how far Coder's clock is ahead of Fleet's
}

// newTransport returns the transport for a Config without one.
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

// roundTrip sends the request. It retries a GET once if there was no response, or if the status is 502, 503 or 504. It returns a
// throttledError while the rate limit is reached. A 429 in response to a request for an app says nothing about the limit, because the
// response can be from a program in the workspace.
func (t *throttle) roundTrip(r *http.Request) (*http.Response, error) {
	if err := t.checkSuspended(); err != nil {
		return nil, err
	}
	res, err := t.base.RoundTrip(r)
	if r.Method == http.MethodGet && r.Context().Err() == nil && shouldRetry(res, err) {
		if res != nil {
			drain(res.Body)
		}
		if err := t.sleep(r.Context(), retryPause); err != nil {
			return nil, err
		}
		res, err = t.base.RoundTrip(r)
	}
	if err != nil {
		return nil, err
	}
	t.measureSkew(res)
	if res.StatusCode == http.StatusTooManyRequests && !isAppRequest(res.Request) {
		drain(res.Body)
		return nil, t.suspend(res.Header.Get("Retry-After"))
	}
	return res, nil
}

func shouldRetry(res *http.Response, err error) bool {
	if err != nil {
		return true
	}
	switch res.StatusCode {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// checkSuspended returns a throttledError if no requests may be sent now.
func (t *throttle) checkSuspended() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if left := t.suspendedUntil.Sub(t.now()); left > 0 {
		return &throttledError{after: left}
	}
	return nil
}

// suspend stops requests for the time in Coder's Retry-After, at most maxThrottle, and returns a throttledError. If the time cannot be
// read, suspend stops requests for 5 seconds.
func (t *throttle) suspend(retryAfter string) error {
	wait := 5 * time.Second
	if n, err := strconv.Atoi(retryAfter); err == nil && n > 0 {
		wait = min(time.Duration(n)*time.Second, maxThrottle)
	} else if at, err := http.ParseTime(retryAfter); err == nil {
		wait = min(max(at.Sub(t.now()), time.Second), maxThrottle)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.suspendedUntil = t.now().Add(wait)
	return &throttledError{after: wait}
}

// measureSkew sets the skew from the Date of a response, unless the response is from an app in a workspace.
func (t *throttle) measureSkew(res *http.Response) {
	if isAppRequest(res.Request) {
		return // the Date is from the workspace's clock
	}
	skew := agentapi.ClockSkew(res, t.now())
	t.mu.Lock()
	defer t.mu.Unlock()
	t.skew = skew
}

// clockSkew returns how far Coder's clock is ahead of Fleet's.
func (t *throttle) clockSkew() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.skew
}

// drain reads the rest of a response, up to a limit, so that its connection can be reused.
func drain(body io.ReadCloser) {
	_, _ = io.Copy(io.Discard, io.LimitReader(body, 64<<10))
	_ = body.Close()
}

// sleep waits for d, or until ctx is done.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// callCoder makes one API call with the time limit requestTimeout, and translates its error. The text what names the
// operation.
func callCoder[T any](ctx context.Context, what string, call func(context.Context) (T, error)) (T, error) {
	bounded, cancel := context.WithTimeout(ctx, requestTimeout)
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
