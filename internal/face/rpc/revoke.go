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

// openCalls groups open calls by their credentials and rights, so that credentials are checked once for all calls that
// share them.
type openCalls struct {
	auth  Authenticator
	every time.Duration

	mu     sync.Mutex
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

func newOpenCalls(auth Authenticator) *openCalls {
	return &openCalls{auth: auth, every: recheck, groups: map[string]*group{}}
}

// enter returns a context for the call of the principal, which is cancelled when the credentials are revoked. The context
// of a stream is also cancelled when the principal loses rights. Call leave when the call has ended.
func (o *openCalls) enter(ctx context.Context, p fleet.Principal, stream bool) (_ context.Context, leave func()) {
	given := metadata.ValueFromIncomingContext(ctx, authorization)
	if len(given) == 0 {
		return ctx, func() {}
	}
	key := strings.Join(given, "\n") + "\n" + p.Scope.String() + "\n" + strings.Join(p.Groups, "\n")
	ctx, cancel := context.WithCancelCause(ctx)
	o.mu.Lock()
	defer o.mu.Unlock()
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
		delete(g.calls, &cancel)
		if len(g.calls) == 0 && o.groups[key] == g {
			delete(o.groups, key)
			g.timer.Stop()
		}
	}
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
