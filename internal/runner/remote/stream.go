package remote

import (
	"context"
	"errors"
	"sync"
	"time"

	"connectrpc.com/connect"

	"fleet/internal/fleet"
)

// responseStream is a streaming response of the server. It sends heartbeats until end is called.
type responseStream[M any] struct {
	callerCtx, workCtx context.Context //nolint:containedctx // the contexts of the call and of the work
	cancel             context.CancelFunc
	stream             *connect.ServerStream[M]
	sendMu             sync.Mutex
	heartbeatsDone     chan struct{} // closed when no more heartbeats are sent
}

// startResponse starts the response of a call. It cancels the work when heartbeats cannot be sent. It also cancels the work
// after the time limit, unless that is 0.
func startResponse[M any](ctx context.Context, s *Server, stream *connect.ServerStream[M], heartbeat *M, limit time.Duration) *responseStream[M] {
	r := &responseStream[M]{callerCtx: ctx, stream: stream, heartbeatsDone: make(chan struct{})}
	if limit > 0 {
		r.workCtx, r.cancel = context.WithTimeout(ctx, limit)
	} else {
		r.workCtx, r.cancel = context.WithCancel(ctx)
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
			case <-r.workCtx.Done():
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

// end stops the heartbeats. late means that the work was cancelled although the caller still waits, for example because of the
// time limit.
func (r *responseStream[M]) end() (late bool) {
	late = r.workCtx.Err() != nil && r.callerCtx.Err() == nil
	r.cancel()
	<-r.heartbeatsDone // nothing may be sent after the method has returned
	return late
}

// respond does the work, and sends its result as the last message of the response. If the time limit ends the work, it sends no
// result.
func respond[M any](ctx context.Context, s *Server, stream *connect.ServerStream[M], heartbeat *M, limit time.Duration, work func(*responseStream[M]) (*M, error)) error {
	r := startResponse(ctx, s, stream, heartbeat, limit)
	result, err := work(r)
	late := r.end()
	switch {
	case err == nil:
		return r.send(result)
	case late && errors.Is(err, context.DeadlineExceeded):
		return nil
	}
	return s.wireError(ctx, err)
}

// receive makes the request and reads the response until handle returns true or the stream ends. A stream that is silent for
// idleTimeout counts as broken. answered reports whether a message has arrived.
func receive[Req, M any](ctx context.Context, idleTimeout time.Duration, method streamMethod[Req, M], req *Req, handle func(*M) (done bool)) (done, answered bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(idleTimeout, func() { cancel(errRetry) })
	defer watchdog.Stop()
	stream, err := method(ctx, connect.NewRequest(req))
	if err != nil {
		return false, false, err
	}
	defer func() { _ = stream.Close() }()
	for stream.Receive() {
		watchdog.Stop() // handle may take long
		if handle(stream.Msg()) {
			return true, true, nil
		}
		answered = true
		watchdog.Reset(idleTimeout)
	}
	return false, answered, stream.Err()
}

// streamMethod is a method of the runner with a streaming response.
type streamMethod[Req, M any] = func(context.Context, *connect.Request[Req]) (*connect.ServerStreamForClient[M], error)

// callStream makes a streaming call. It repeats the request when a stream ends or breaks, until handle returns true or the runner
// was unreachable for too long. handle may change the request.
func callStream[Req, M any](ctx context.Context, c *Client, a fleet.Agent, method streamMethod[Req, M], req *Req, handle func(*M) (done bool)) error {
	ctx = context.WithValue(ctx, requestAgentKey{}, a.UID)
	retrier := c.newRetrier(a)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		done, answered, err := receive(ctx, c.config.IdleTimeout, method, req, handle)
		if done {
			return nil
		}
		if answered {
			retrier = c.newRetrier(a)
		}
		if err == nil {
			continue // max_wait is over
		}
		if err := retrier.waitForRetry(ctx, err); err != nil {
			return err
		}
	}
}
