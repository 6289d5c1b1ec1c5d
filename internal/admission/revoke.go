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

// recheck is the interval at which the credentials of open calls are checked again. Another process that uses the same
// data can revoke a token, so polling is the only way to notice.
const recheck = 500 * time.Millisecond

// errRevoked ends the open calls of a revoked token.
var errRevoked = fleet.Errorf(fleet.ReasonUnauthenticated, "the token was revoked or has expired, so the call was ended")

// errNarrowed ends the open streams of a caller who has lost rights since they began.
var errNarrowed = fleet.Errorf(fleet.ReasonPermissionDenied, "you have lost rights on this server since the call began, so it was ended: call again")

// endError is the cause of the context of a call that openCalls has ended.
type endError struct{ error }

// retryOpen is how long a principal with too many open calls should wait before it repeats a call.
const retryOpen = time.Second

// openCalls counts the open calls of each principal, from the arrival of their headers on. It groups them by their
// credentials and rights, so that credentials are checked once for all calls that share them.
type openCalls struct {
	auth     Authenticator
	every    time.Duration
	patience time.Duration // see Config.Patience
	most     atomic.Int64  // the most open calls of a principal; 0 means no limit

	mu     sync.Mutex
	counts map[string]int // open calls by principal
	groups map[string]*group
}

// group holds the open calls with the same credentials and rights.
type group struct {
	ctx   context.Context //nolint:containedctx // has the values of the first call, for the authenticator
	md    metadata.MD
	of    fleet.Principal
	calls map[*openCall]bool
	timer *time.Timer
}

// openCall is a call whose caller has credentials. A message to MCP is one call, and can lead to several calls of methods.
type openCall struct {
	ctx   context.Context //nolint:containedctx // that of the whole call; for gRPC, it ends before the client has read the answer
	ended error           // why the call was ended; nil if it was not. openCalls.mu guards it.
	works map[*work]bool
	leave func() // forgets the call; openCalls.mu must be held
}

// work is a part of an open call that can be cancelled.
type work struct {
	cancel  context.CancelCauseFunc
	stream  bool         // it also ends when the caller loses rights
	waiting atomic.Int64 // 0 if it does not wait for the client to read; otherwise 1 and the number of checks since then
}

// notRead returns the error that ends a call whose client does not read. A client that follows events can go on from its last
// cursor.
func notRead(patience time.Duration) error {
	return &fleet.Error{
		Code: fleet.Unavailable, Reason: fleet.ReasonBackendUnavailable, RetryAfter: time.Second,
		Message: fmt.Sprintf("the client has not read the answer for %s, so the call was ended: call again", patience),
	}
}

// sends records that the work waits for the client to read.
func (w *work) sends() { w.waiting.Store(1) }

// sent records that the client has read.
func (w *work) sent() { w.waiting.Store(0) }

func newOpenCalls(auth Authenticator, most int, patience time.Duration) *openCalls {
	o := &openCalls{auth: auth, every: recheck, patience: patience, counts: map[string]int{}, groups: map[string]*group{}}
	o.most.Store(int64(most))
	return o
}

// enter counts a call of the principal with the credentials in md, until ctx ends. The error is LIMIT_REACHED if the
// principal has too many open calls.
func (o *openCalls) enter(ctx context.Context, p fleet.Principal, md metadata.MD) (*openCall, error) {
	key := strings.Join(md.Get(authorization), "\n") + "\n" + p.Scope.String() + "\n" + strings.Join(p.Groups, "\n")
	o.mu.Lock()
	defer o.mu.Unlock()
	if most := int(o.most.Load()); most > 0 && o.counts[p.Name] >= most {
		return nil, fleet.TooManyOpen(most, retryOpen)
	}
	o.counts[p.Name]++
	g := o.groups[key]
	if g == nil {
		g = &group{ctx: context.WithoutCancel(ctx), md: md, of: p, calls: map[*openCall]bool{}}
		o.groups[key] = g
		g.timer = time.AfterFunc(o.every, func() { o.check(key, g) })
	}
	c := &openCall{ctx: ctx, works: map[*work]bool{}}
	g.calls[c] = true
	c.leave = func() {
		if !g.calls[c] {
			return
		}
		if o.counts[p.Name]--; o.counts[p.Name] == 0 {
			delete(o.counts, p.Name)
		}
		delete(g.calls, c)
		if len(g.calls) == 0 && o.groups[key] == g {
			delete(o.groups, key)
			g.timer.Stop()
		}
	}
	context.AfterFunc(ctx, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		c.leave()
	})
	return c, nil
}

// attach returns a context for a part of the call. It is cancelled when the credentials of the call are revoked, and that of
// a stream also when the caller loses rights. Call leave at the end of the part. It fails if the call was ended before.
func (o *openCalls) attach(ctx context.Context, c *openCall, stream bool) (_ context.Context, w *work, leave func(), err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if c.ended != nil {
		c.leave()
		return ctx, nil, nil, c.ended
	}
	ctx, cancel := context.WithCancelCause(ctx)
	w = &work{cancel: cancel, stream: stream}
	c.works[w] = true
	return ctx, w, func() {
		cancel(nil)
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(c.works, w)
	}, nil
}

// admit records whether the part of the call is a stream. It fails if the call was ended before.
func (o *openCalls) admit(c *openCall, w *work, stream bool) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	w.stream = stream
	return c.ended
}

// check ends the group's calls if their credentials are revoked or give no access any more. If the caller has lost rights, it
// ends the streams, and the calls that have not begun. If the credentials cannot be checked, the calls continue.
func (o *openCalls) check(key string, g *group) {
	ctx, cancel := context.WithTimeout(g.ctx, o.every)
	defer cancel()
	now, err := o.auth.Authenticate(ctx, g.md)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.groups[key] != g {
		return
	}
	reason := fleet.ReasonOf(err)
	refused := reason == fleet.ReasonUnauthenticated || reason == fleet.ReasonPermissionDenied
	why := err
	switch {
	case reason == fleet.ReasonUnauthenticated:
		why = errRevoked
	case err == nil && narrowed(g.of, now):
		why = errNarrowed
	}
	for c := range g.calls {
		if refused || why == errNarrowed { //nolint:errorlint // not wrapped
			c.end(why, refused)
		}
		for w := range c.works {
			if n := w.waiting.Load(); n > 0 && w.waiting.CompareAndSwap(n, n+1) && time.Duration(n)*o.every > o.patience {
				w.cancel(endError{notRead(o.patience)})
			}
		}
	}
	if len(g.calls) == 0 {
		return
	}
	g.timer.Reset(o.every)
}

// end cancels all works of the call, or only its streams. The call is forgotten if no work is left: gRPC does not end the
// context of a call that is cancelled before it begins. openCalls.mu must be held.
func (c *openCall) end(why error, all bool) {
	rest := false
	for w := range c.works {
		if all || w.stream {
			c.ended = why
			w.cancel(endError{why})
		} else {
			rest = true
		}
	}
	if !rest {
		c.ended = why
		c.leave()
	}
}

// narrowed reports whether the principal has lost rights.
func narrowed(before, now fleet.Principal) bool {
	return now.Scope < before.Scope || slices.ContainsFunc(before.Groups, func(g string) bool { return !slices.Contains(now.Groups, g) })
}
