package rpc

import (
	"context"
	"slices"
	"strings"
	"sync"
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

// ended is the cause of the context of a call that openCalls has ended.
type ended struct{ error }

// retryOpen is how long a principal with too many open calls should wait before it repeats a call.
const retryOpen = time.Second

// openCalls counts the open calls of each principal. It groups them by their credentials and rights, so that credentials
// are checked once for all calls that share them.
type openCalls struct {
	auth  Authenticator
	every time.Duration
	most  int // the most open calls of a principal; 0 means no limit

	mu     sync.Mutex
	counts map[string]int // open calls by principal
	groups map[string]*group
}

// group holds the open calls with the same credentials and rights.
type group struct {
	ctx   context.Context //nolint:containedctx // has the values of the first call, for the authenticator
	md    metadata.MD
	of    fleet.Principal
	calls map[*context.CancelCauseFunc]bool // true for streams
	timer *time.Timer
}

func newOpenCalls(auth Authenticator, most int) *openCalls {
	return &openCalls{auth: auth, every: recheck, most: most, counts: map[string]int{}, groups: map[string]*group{}}
}

// enter returns a context for the call of the principal, which is cancelled when the credentials are revoked. The context
// of a stream is also cancelled when the principal loses rights. Call leave when the call has ended. The error is
// LIMIT_REACHED if the principal has too many open calls. A call without credentials is not counted.
func (o *openCalls) enter(ctx context.Context, p fleet.Principal, stream bool) (_ context.Context, leave func(), err error) {
	given := metadata.ValueFromIncomingContext(ctx, authorization)
	if len(given) == 0 {
		return ctx, func() {}, nil
	}
	key := strings.Join(given, "\n") + "\n" + p.Scope.String() + "\n" + strings.Join(p.Groups, "\n")
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.most > 0 && o.counts[p.Name] >= o.most {
		return ctx, nil, fleet.TooManyOpen(o.most, retryOpen)
	}
	o.counts[p.Name]++
	ctx, cancel := context.WithCancelCause(ctx)
	g := o.groups[key]
	if g == nil {
		md, _ := metadata.FromIncomingContext(ctx)
		g = &group{ctx: context.WithoutCancel(ctx), md: md, of: p, calls: map[*context.CancelCauseFunc]bool{}}
		o.groups[key] = g
		g.timer = time.AfterFunc(o.every, func() { o.check(key, g) })
	}
	g.calls[&cancel] = stream
	return ctx, func() {
		cancel(nil)
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.counts[p.Name]--; o.counts[p.Name] == 0 {
			delete(o.counts, p.Name)
		}
		delete(g.calls, &cancel)
		if len(g.calls) == 0 && o.groups[key] == g {
			delete(o.groups, key)
			g.timer.Stop()
		}
	}, nil
}

// check ends the group's calls if their credentials are revoked or give no access any more, and its streams if the caller
// has lost rights. If the credentials cannot be checked, the calls continue.
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
	for cancel, stream := range g.calls {
		if refused || why == errNarrowed && stream { //nolint:errorlint // not wrapped
			(*cancel)(ended{why})
			delete(g.calls, cancel)
		}
	}
	if len(g.calls) == 0 {
		delete(o.groups, key)
		return
	}
	g.timer.Reset(o.every)
}

// narrowed reports whether the principal has lost rights.
func narrowed(before, now fleet.Principal) bool {
	return now.Scope < before.Scope || slices.ContainsFunc(before.Groups, func(g string) bool { return !slices.Contains(now.Groups, g) })
}
