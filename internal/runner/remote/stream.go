package remote

import (
	"context"
	"sync"
	"time"

	"connectrpc.com/connect"

	"fleet/internal/fleet"
)

// responseStream is a call with a long response. It sends heartbeats until end is called.
type responseStream[M any] struct {
	callerCtx, ctx context.Context //nolint:containedctx // the contexts of the call and of the work
	cancel         context.CancelFunc
	stream         *connect.ServerStream[M]
	sendMu         sync.Mutex
	heartbeatsDone chan struct{} // closed when no more heartbeats are sent
}

// startResponse starts the response of a call. It cancels the work when heartbeats cannot be sent. It also cancels the work
// after the time limit, unless that is 0.
func startResponse[M any](ctx context.Context, s *Server, stream *connect.ServerStream[M], heartbeat *M, limit time.Duration) *responseStream[M] {
	r := &responseStream[M]{callerCtx: ctx, stream: stream, heartbeatsDone: make(chan struct{})}
	if limit > 0 {
		r.ctx, r.cancel = context.WithTimeout(ctx, limit)
	} else {
		r.ctx, r.cancel = context.WithCancel(ctx)
	}
	go func() {
		defer close(r.heartbeatsDone)
		tick := time.NewTicker(s.config.Heartbeat)
		defer tick.Stop()
		for {
			if r.send(heartbeat) != nil {
				r.cancel()
				return
			}
			select {
			case <-tick.C:
			case <-r.ctx.Done():
				return
			}
		}
	}()
	return r
}

func (r *responseStream[M]) send(m *M) error {
	r.sendMu.Lock()
	defer r.sendMu.Unlock()
	return r.stream.Send(m)
}

// end stops the heartbeats. It reports whether the work was cancelled although the caller still waits, for example by
// its time limit.
func (r *responseStream[M]) end() (late bool) {
	late = r.ctx.Err() != nil && r.callerCtx.Err() == nil
	r.cancel()
	<-r.heartbeatsDone // nothing may be sent after the method has returned
	return late
}

// receive reads a stream until take returns false or the stream ends. A stream that is silent for too long counts as
// broken.
func receive[M any](ctx context.Context, silence time.Duration, open func(context.Context) (*connect.ServerStreamForClient[M], error), handle func(*M) bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(silence, func() { cancel(errConnectionBroken) })
	defer watchdog.Stop()
	stream, err := open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }()
	for stream.Receive() {
		watchdog.Stop() // take may take long
		if !handle(stream.Msg()) {
			return nil
		}
		watchdog.Reset(silence)
	}
	return stream.Err()
}

// callStreams makes a streaming call. It calls once for one connection after the other, until once reports that the call is
// done, or until the runner was unreachable for too long. heard reports whether the runner has answered on a
// connection.
func (c *Client) callStreams(ctx context.Context, a fleet.Agent, once func(context.Context) (done, heard bool, err error)) error {
	ctx = context.WithValue(ctx, callerKey{}, caller{a.UID})
	t := c.attempts(a)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		done, heard, err := once(ctx)
		if done {
			return nil
		}
		if heard {
			t = c.attempts(a)
		}
		if err == nil {
			continue // max_wait is over
		}
		if err := t.waitForRetry(ctx, err); err != nil {
			return err
		}
	}
}
