package rpc

import (
	"context"
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

// openCalls groups open calls by their credentials, so that credentials are checked once for all calls that share them.
type openCalls struct {
	auth  Authenticator
	every time.Duration

	mu     sync.Mutex
	groups map[string]*group
}

// group holds the open calls with the same credentials.
type group struct {
	ctx   context.Context //nolint:containedctx // has the values of the first call, for the authenticator
	md    metadata.MD
	calls map[*context.CancelCauseFunc]struct{}
	timer *time.Timer
}

func newOpenCalls(auth Authenticator) *openCalls {
	return &openCalls{auth: auth, every: recheck, groups: map[string]*group{}}
}

// enter returns a context for the call, which is cancelled when the credentials are revoked. Call leave when the call
// has ended.
func (o *openCalls) enter(ctx context.Context) (_ context.Context, leave func()) {
	given := metadata.ValueFromIncomingContext(ctx, authorization)
	if len(given) == 0 {
		return ctx, func() {}
	}
	key := strings.Join(given, "\n")
	ctx, cancel := context.WithCancelCause(ctx)
	o.mu.Lock()
	defer o.mu.Unlock()
	g := o.groups[key]
	if g == nil {
		md, _ := metadata.FromIncomingContext(ctx)
		g = &group{ctx: context.WithoutCancel(ctx), md: md, calls: map[*context.CancelCauseFunc]struct{}{}}
		o.groups[key] = g
		g.timer = time.AfterFunc(o.every, func() { o.check(key, g) })
	}
	g.calls[&cancel] = struct{}{}
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

// check ends the group's calls if their credentials are revoked. If the store cannot be read, the calls continue.
func (o *openCalls) check(key string, g *group) {
	ctx, cancel := context.WithTimeout(g.ctx, o.every)
	defer cancel()
	_, err := o.auth.Authenticate(ctx, g.md)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.groups[key] != g {
		return
	}
	if fleet.ReasonOf(err) != fleet.ReasonUnauthenticated {
		g.timer.Reset(o.every)
		return
	}
	delete(o.groups, key)
	for cancel := range g.calls {
		(*cancel)(errRevoked)
	}
}
