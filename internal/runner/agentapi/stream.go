package agentapi

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"fleet/internal/fleet"
)

// latestView holds the newest view of the conversation, for one reader.
type latestView struct {
	mu      sync.Mutex
	view    *view
	changed chan struct{}
}

func (l *latestView) put(v *view) {
	l.mu.Lock()
	l.view = &view{status: v.status, agentType: v.agentType, skew: v.skew, messages: slices.Clone(v.messages)}
	l.mu.Unlock()
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

func (l *latestView) get() *view {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.view
}

// watch follows the run while its agent can be reached. It uses AgentAPI's event stream, and polls while the stream
// does not work. If the agent cannot be reached, watch returns without an error, and ended is false.
func (f *follower) watch(ctx context.Context) (o fleet.Outcome, ended bool, err error) {
	facts := f.workspace.Facts()
	if facts.URL == nil {
		f.markLost()
		return o, false, ctx.Err()
	}
	f.api = f.runners.client(facts)
	for {
		if f.lastStreamEnd.IsZero() || f.now().Sub(f.lastStreamEnd) > streamRetryDelay {
			if o, ended, err = f.followStream(ctx); err != nil || ended {
				return o, ended, f.checkError(ctx, err)
			}
			f.lastStreamEnd = f.now()
		}
		v, err := f.api.readView(ctx)
		if err != nil {
			return o, false, f.handleConnectionError(ctx, err)
		}
		f.setView(v)
		if o, ended, err = f.handleView(ctx); err != nil || ended {
			return o, ended, f.checkError(ctx, err)
		}
		if err := f.runners.config.Wait(ctx, pollPause); err != nil {
			return o, false, err
		}
	}
}

// markLost records that the agent cannot be reached, unless that is already recorded.
func (f *follower) markLost() {
	if f.lostSince.IsZero() {
		f.lostSince = f.now()
	}
}

// followStream follows the run while AgentAPI's event stream works. If the stream ends, followStream returns without an error, and ended is
// false.
func (f *follower) followStream(ctx context.Context) (o fleet.Outcome, ended bool, err error) {
	watchCtx, cancel := context.WithCancel(ctx)
	latest := &latestView{changed: make(chan struct{}, 1)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = f.api.watch(watchCtx, latest.put)
	}()
	defer func() {
		cancel()
		<-done
	}()
	tick := time.NewTicker(tickInterval)
	defer tick.Stop()
	f.view, f.viewAt = nil, f.now()
	for {
		select {
		case <-ctx.Done():
			return o, false, ctx.Err()
		case <-latest.changed:
			f.setView(latest.get())
		case <-done:
			return o, false, nil
		case <-tick.C:
		}
		if f.view != nil {
			if o, ended, err = f.handleView(ctx); err != nil || ended {
				return o, ended, err
			}
		}
		if f.now().Sub(f.viewAt) < checkInterval {
			continue
		}
		if f.view == nil {
			return o, false, nil
		}
		// No event came for a while. If the conversation has changed meanwhile, the stream is broken.
		v, err := f.api.readView(ctx)
		if err != nil {
			return o, false, err
		}
		same := sameView(f.view, v)
		f.setView(v)
		if !same {
			return o, false, nil
		}
	}
}

// checkError returns err unchanged if it is an error of the sink or of Fleet. It handles any other error as a broken connection.
func (f *follower) checkError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	var sinkErr sinkError
	var known *fleet.Error
	if errors.As(err, &sinkErr) || errors.As(err, &known) {
		return err
	}
	return f.handleConnectionError(ctx, err)
}

// sinkError marks an error that the sink of Follow returned.
type sinkError struct{ error }

// handleConnectionError handles a broken connection to the agent. If the agent may become reachable again, it marks the agent as lost and
// returns nil.
func (f *follower) handleConnectionError(ctx context.Context, err error) error {
	var unreachable *unreachableError
	var refusal *RefusalError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &unreachable), errors.As(err, &refusal), errors.Is(err, context.DeadlineExceeded):
		f.markLost()
		return nil
	}
	return f.workspace.Translate("following the agent "+f.agent.Name, err)
}

func sameView(a, b *view) bool {
	return a.status == b.status && slices.EqualFunc(a.apiMessages(), b.apiMessages(), func(x, y message) bool { return x.ID == y.ID && x.Content == y.Content })
}
