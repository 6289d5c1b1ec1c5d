package cli

import (
	"context"
	"errors"
	"io"
	"strconv"

	"google.golang.org/protobuf/proto"

	fleetv1 "fleet/gen/fleet/v1"
)

// eventPageSize is the number of events that a call requests if it does not follow the log. If the server sends fewer events, the log
// has no more.
const eventPageSize = 10000

// eventFeed reads the event log from a cursor: every event once and in order, over as many streams as needed.
type eventFeed struct {
	*attempts
	// req selects the events. Its cursor advances with the events that were read.
	req        *fleetv1.WatchFleetRequest
	lastCursor uint64 // cursor of the last event that was passed on
}

// newEventFeed returns a feed of the events that the request selects.
func (s *session) newEventFeed(req *fleetv1.WatchFleetRequest) *eventFeed {
	f := &eventFeed{attempts: s.conn.newAttempts(fleetv1.FleetService_WatchFleet_FullMethodName, req), req: req}
	f.isEndless = true
	return f
}

// run passes each event to handle. If the request does not follow, run returns nil at the end of the log. It returns an error if handle or
// done fails, if the log stays unreachable, or if ctx is done. If the request follows and the server ends the stream, run calls done. If done
// reports true, no more events will be written, and run reads those that are left and returns. done may be nil, which means that more events may
// always come.
func (f *eventFeed) run(ctx context.Context, handle func(*fleetv1.Event) error, done func() (bool, error)) error {
	if !f.req.GetFollow() {
		f.req.MaxEvents = proto.Int32(eventPageSize)
	}
	streamCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	next := f.receiver(streamCtx, (&fleetv1.WatchFleetResponse{}).ProtoReflect().Type(), func(proto.Message) {})
	for events := 0; ; {
		m, err := next()
		switch {
		case err != nil && !isEnd(err) && ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && !isEnd(err):
			return err
		case err == nil:
			resp, _ := m.(*fleetv1.WatchFleetResponse)
			events += len(resp.GetEvents())
			if err := f.handleEvents(resp, handle); err != nil {
				return err
			}
		case !f.req.GetFollow():
			if events < eventPageSize {
				return nil
			}
			events = 0
		default:
			const requestSent = true
			ended := false
			if done != nil {
				if ended, err = done(); err != nil {
					return err
				}
			}
			if ended { // read the events that the stream has not delivered from the log
				f.req.Follow, f.req.MaxEvents = false, proto.Int32(eventPageSize)
				events = 0
			} else if err := f.waitForRetry(ctx, requestSent, errStreamEnds); ctx.Err() != nil {
				return context.Cause(ctx)
			} else if err != nil {
				return err
			}
		}
	}
}

// handleEvents passes the events of a response to handle, except those that it has passed on before. It advances the cursor of the request.
func (f *eventFeed) handleEvents(resp *fleetv1.WatchFleetResponse, handle func(*fleetv1.Event) error) error {
	for _, e := range resp.GetEvents() {
		if n, err := strconv.ParseUint(e.GetCursor(), 10, 64); err == nil {
			if n <= f.lastCursor {
				continue
			}
			f.lastCursor = n
		}
		if err := handle(e); err != nil {
			return err
		}
		f.req.Cursor = e.GetCursor()
	}
	if c := resp.GetCursor(); c != "" {
		if n, err := strconv.ParseUint(c, 10, 64); err != nil || n >= f.lastCursor {
			f.req.Cursor = c
		}
	}
	return nil
}

// hasEndedFunc returns a function that reports whether the task has ended.
func (s *session) hasEndedFunc(ctx context.Context, task string) func() (bool, error) {
	return func() (bool, error) {
		resp, err := s.fleet.ShowTask(ctx, &fleetv1.ShowTaskRequest{TaskId: task})
		return hasEnded(resp.GetTask().GetStatus()), err
	}
}

// latestCursor returns the cursor at the end of the event log. A feed from this cursor misses no later event. latestCursor returns "now" if it
// cannot get the cursor.
func (s *session) latestCursor(ctx context.Context) string {
	stream, err := s.fleet.WatchFleet(ctx, &fleetv1.WatchFleetRequest{Cursor: "now"})
	if err != nil {
		return "now"
	}
	cursor := "now"
	for {
		resp, err := stream.Recv()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				return "now"
			}
			return cursor
		}
		if resp.GetCursor() != "" {
			cursor = resp.GetCursor()
		}
	}
}
