package remote

import (
	"context"
	"sync"
	"time"

	"connectrpc.com/connect"

	"fleet/internal/fleet"
)

// answering is a call whose answer takes long. It sends heartbeats until it is ended.
type answering[M any] struct {
	caller, ctx context.Context //nolint:containedctx // of the call, and of what is waited for
	cancel      context.CancelFunc
	stream      *connect.ServerStream[M]
	sending     sync.Mutex
	beats       chan struct{} // closed when there are no more heartbeats
}

// answer begins to answer a call. What it waits for is cut off when heartbeats do not arrive, and after most, unless that is 0.
func answer[M any](ctx context.Context, s *Server, stream *connect.ServerStream[M], heartbeat *M, most time.Duration) *answering[M] {
	a := &answering[M]{caller: ctx, stream: stream, beats: make(chan struct{})}
	if most > 0 {
		a.ctx, a.cancel = context.WithTimeout(ctx, most)
	} else {
		a.ctx, a.cancel = context.WithCancel(ctx)
	}
	go func() {
		defer close(a.beats)
		tick := time.NewTicker(s.config.Heartbeat)
		defer tick.Stop()
		for {
			if a.send(heartbeat) != nil {
				a.cancel()
				return
			}
			select {
			case <-tick.C:
			case <-a.ctx.Done():
				return
			}
		}
	}()
	return a
}

func (a *answering[M]) send(m *M) error {
	a.sending.Lock()
	defer a.sending.Unlock()
	return a.stream.Send(m)
}

// end ends the heartbeats, and says whether the call was cut off because it took the most time that it may.
func (a *answering[M]) end() (late bool) {
	late = a.ctx.Err() != nil && a.caller.Err() == nil
	a.cancel()
	<-a.beats // nothing may be sent when the method has returned
	return late
}

// receive reads a stream until take returns false, or the stream ends. A stream that is silent for too long is broken.
func receive[M any](ctx context.Context, silence time.Duration, open func(context.Context) (*connect.ServerStreamForClient[M], error), take func(*M) bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(silence, func() { cancel(errLost) })
	defer watchdog.Stop()
	stream, err := open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }()
	for stream.Receive() {
		watchdog.Stop() // take may take its time
		if !take(stream.Msg()) {
			return nil
		}
		watchdog.Reset(silence)
	}
	return stream.Err()
}

// listen makes a call that streams, on one connection after the other, until once says that it is done, or the runner was out
// of reach for too long. heard says that the runner has said something.
func (c *Client) listen(ctx context.Context, a fleet.Agent, once func(context.Context) (done, heard bool, err error)) error {
	ctx = context.WithValue(ctx, callerKey{}, caller{a.UID})
	t := c.tries(a)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		done, heard, err := once(ctx)
		if done {
			return nil
		}
		if heard {
			t = c.tries(a)
		}
		if err == nil {
			continue // max_wait is over
		}
		if err := t.again(ctx, err); err != nil {
			return err
		}
	}
}
