package admission

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/metadata"

	"fleet/internal/fleet"
)

// recheckInterval is the interval at which the credentials of open calls are checked again. Another process that uses the same
// data can revoke a token, so polling is the only way to notice.
const recheckInterval = 500 * time.Millisecond

// errRevoked ends the open calls of a revoked token.
var errRevoked = fleet.Errorf(fleet.ReasonUnauthenticated, "the token was revoked or has expired, so the call was ended")

// errRightsLost ends the open streams of a caller who has lost rights since they began.
var errRightsLost = fleet.Errorf(fleet.ReasonPermissionDenied, "you have lost rights on this server since the call began, so it was ended: call again")

// endError is the cause of the context of a call that openCalls has ended.
type endError struct{ error }

// openCallsRetryAfter is how long a principal with too many open calls should wait before it repeats a call.
const openCallsRetryAfter = time.Second

// openCalls counts the open calls of each principal, from the arrival of their headers on. It ends them when their credentials are
// revoked. It groups them by their credentials and rights, so that credentials are checked once for all calls that share them.
type openCalls struct {
	auth          Authenticator
	interval      time.Duration
	unreadTimeout time.Duration // see Config.UnreadTimeout
	limit         atomic.Int64  // the most open calls of a principal; 0 means no limit

	mu         sync.Mutex
	counts     map[string]int // open calls by principal
	callGroups map[string]*callGroup
}

// callGroup holds the open calls with the same credentials and rights.
type callGroup struct {
	ctx       context.Context //nolint:containedctx // has the values of the first call, for the authenticator
	md        metadata.MD
	principal fleet.Principal // as identified at the first call
	calls     map[*openCall]bool
	timer     *time.Timer
}

// openCall is a call whose caller has credentials. A message to MCP is one call, and can lead to several calls of methods.
type openCall struct {
	ctx    context.Context //nolint:containedctx // that of the whole call; for gRPC, it ends before the client has read the response
	endErr error           // why the call was ended; nil if it was not. openCalls.mu guards it.
	parts  map[*callPart]bool
	forget func() // forgets the call; openCalls.mu must be held
}

// callPart is a part of an open call that can be cancelled.
type callPart struct {
	cancel       context.CancelCauseFunc
	stream       bool         // it also ends when the caller loses rights
	unreadChecks atomic.Int64 // 0 if it does not wait for the client to read; otherwise 1 plus the number of checks since the wait began
}

// newNotReadError returns the error that ends a call whose client does not read. A client that follows events can go on from its last
// cursor.
func newNotReadError(timeout time.Duration) error {
	return &fleet.Error{
		Code: fleet.Unavailable, Reason: fleet.ReasonBackendUnavailable, RetryAfter: time.Second,
		Message: fmt.Sprintf("the client has not read the answer for %s, so the call was ended: call again", timeout),
	}
}

// beginSend records that the part waits for the client to read.
func (part *callPart) beginSend() { part.unreadChecks.Store(1) }

// endSend records that the client has read.
func (part *callPart) endSend() { part.unreadChecks.Store(0) }

func newOpenCalls(auth Authenticator, limit int, unreadTimeout time.Duration) *openCalls {
	o := &openCalls{auth: auth, interval: recheckInterval, unreadTimeout: unreadTimeout, counts: map[string]int{}, callGroups: map[string]*callGroup{}}
	o.limit.Store(int64(limit))
	return o
}

// add counts a call of the principal with the credentials in md, until ctx ends. The error is LIMIT_REACHED if the
// principal has too many open calls.
func (o *openCalls) add(ctx context.Context, p fleet.Principal, md metadata.MD) (*openCall, error) {
	key := strings.Join(md.Get(authorization), "\n") + "\n" + p.Scope.String() + "\n" + strings.Join(p.Groups, "\n")
	o.mu.Lock()
	defer o.mu.Unlock()
	if limit := int(o.limit.Load()); limit > 0 && o.counts[p.Name] >= limit {
		return nil, fleet.TooManyOpen(limit, openCallsRetryAfter)
	}
	o.counts[p.Name]++
	g := o.callGroups[key]
	if g == nil {
		g = &callGroup{ctx: context.WithoutCancel(ctx), md: md, principal: p, calls: map[*openCall]bool{}}
		o.callGroups[key] = g
		g.timer = time.AfterFunc(o.interval, func() { o.recheck(key, g) })
	}
	c := &openCall{ctx: ctx, parts: map[*callPart]bool{}}
	g.calls[c] = true
	c.forget = func() {
		if !g.calls[c] {
			return
		}
		if o.counts[p.Name]--; o.counts[p.Name] == 0 {
			delete(o.counts, p.Name)
		}
		delete(g.calls, c)
		if len(g.calls) == 0 && o.callGroups[key] == g {
			delete(o.callGroups, key)
			g.timer.Stop()
		}
	}
	context.AfterFunc(ctx, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		c.forget()
	})
	return c, nil
}

// attach returns a context for a part of the call. The context is cancelled when the credentials of the call are revoked. The
// context of a stream is also cancelled when the caller loses rights. Call leave at the end of the part. attach fails if the
// call has already been ended.
func (o *openCalls) attach(ctx context.Context, c *openCall, stream bool) (_ context.Context, part *callPart, leave func(), err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if c.endErr != nil {
		c.forget()
		return ctx, nil, nil, c.endErr
	}
	ctx, cancel := context.WithCancelCause(ctx)
	part = &callPart{cancel: cancel, stream: stream}
	c.parts[part] = true
	return ctx, part, func() {
		cancel(nil)
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(c.parts, part)
	}, nil
}

// setStream records whether the part of the call is a stream. It fails if the call has already been ended.
func (o *openCalls) setStream(c *openCall, part *callPart, stream bool) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	part.stream = stream
	return c.endErr
}

// recheck ends the group's calls if their credentials are revoked or give no access any more. If the caller has lost rights, it
// ends the streams, and the calls that have not begun. If the credentials cannot be checked, the calls continue. It also ends the
// parts whose clients have not read for longer than unreadTimeout.
func (o *openCalls) recheck(key string, g *callGroup) {
	ctx, cancel := context.WithTimeout(g.ctx, o.interval)
	defer cancel()
	current, err := o.auth.Authenticate(ctx, g.md)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.callGroups[key] != g {
		return
	}
	reason := fleet.ReasonOf(err)
	revoked := reason == fleet.ReasonUnauthenticated || reason == fleet.ReasonPermissionDenied
	why := err
	switch {
	case reason == fleet.ReasonUnauthenticated:
		why = errRevoked
	case err == nil && hasLostRights(g.principal, current):
		why = errRightsLost
	}
	for c := range g.calls {
		if revoked || why == errRightsLost { //nolint:errorlint // not wrapped
			c.end(why, revoked)
		}
		for part := range c.parts {
			if n := part.unreadChecks.Load(); n > 0 && part.unreadChecks.CompareAndSwap(n, n+1) && time.Duration(n)*o.interval > o.unreadTimeout {
				part.cancel(endError{newNotReadError(o.unreadTimeout)})
			}
		}
	}
	if len(g.calls) == 0 {
		return
	}
	g.timer.Reset(o.interval)
}

// end cancels all parts of the call, or only its streams. If no part is left, end forgets the call, because gRPC does not end
// the context of a call that is cancelled before it begins. openCalls.mu must be held.
func (c *openCall) end(why error, all bool) {
	partsLeft := false
	for part := range c.parts {
		if all || part.stream {
			c.endErr = why
			part.cancel(endError{why})
		} else {
			partsLeft = true
		}
	}
	if !partsLeft {
		c.endErr = why
		c.forget()
	}
}

// hasLostRights reports whether the current principal has a smaller scope than before, or has left a group.
func hasLostRights(before, current fleet.Principal) bool {
	return current.Scope < before.Scope || slices.ContainsFunc(before.Groups, func(g string) bool { return !slices.Contains(current.Groups, g) })
}
