package cli

import (
	"context"
	"errors"
	"io"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	fleetv1 "fleet/gen/fleet/v1"
)

// pageOfEvents is how many events one call without follow requests. Fewer events mean the end of the log.
const pageOfEvents = 10000

// feed reads the event log from a cursor: every event once and in order, over as many streams as needed.
type feed struct {
	fleet fleetv1.FleetServiceClient
	// req selects the events. Its cursor advances with the events that were read.
	req *fleetv1.WatchFleetRequest
	// patience is how long the log may be unreachable; a negative value means forever.
	patience time.Duration
	// lost is called when a working stream breaks, and back when the next one works.
	lost, back func()

	// renews says that the next stream gets a new token if the last token has expired.
	renews bool

	last   uint64 // cursor of the last event that was passed to take
	worked bool   // a stream has delivered an answer or ended normally
	outage pause
	told   bool // lost was called, and back was not called since
}

// run passes each event to take. It returns when take fails, when the log stays unreachable or, if the request does not
// follow, at the end of the log. When the server ends a stream that follows, run calls done, which reports whether no
// more events will come. done may be nil.
func (f *feed) run(ctx context.Context, take func(*fleetv1.Event) error, done func() (bool, error)) error {
	if !f.req.GetFollow() {
		f.req.MaxEvents = proto.Int32(pageOfEvents)
	}
	for {
		begun := time.Now()
		events, err := f.once(ctx, take)
		var own *taken
		switch {
		case errors.As(err, &own):
			return own.err
		case err != nil && ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil && !f.req.GetFollow():
			if events < pageOfEvents {
				return nil
			}
			continue
		case err == nil && done != nil:
			over, err := done()
			if err != nil {
				return err
			}
			if over { // read the events that the stream has not delivered from the log
				f.req.Follow, f.req.MaxEvents = false, proto.Int32(pageOfEvents)
				continue
			}
		case f.renews && hasExpired(err, begun):
			continue
		case err != nil && !f.resumable(ctx, err):
			return err
		case err != nil:
			f.tellLost()
		}
		patience := f.patience
		if !f.worked {
			patience = firstContact
		}
		if !f.outage.next(ctx, patience) {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err == nil {
				err = status.Error(codes.Unavailable, "the server keeps ending the stream")
			}
			return err
		}
	}
}

// taken carries an error of take out of the loop.
type taken struct{ err error }

// Error returns the message of the error that take returned.
func (t *taken) Error() string { return t.err.Error() }

// once reads one stream to its end and returns how many events it delivered.
func (f *feed) once(ctx context.Context, take func(*fleetv1.Event) error) (events int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := f.fleet.WatchFleet(ctx, f.req)
	if err != nil {
		return 0, err
	}
	for {
		resp, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			f.worked = true
			return events, nil
		}
		if err != nil {
			return events, err
		}
		f.worked, f.outage = true, pause{}
		f.tellBack()
		events += len(resp.GetEvents())
		for _, e := range resp.GetEvents() {
			if f.seen(e.GetCursor()) {
				continue
			}
			if err := take(e); err != nil {
				return events, &taken{err}
			}
			f.req.Cursor = e.GetCursor()
		}
		if c := resp.GetCursor(); c != "" && !f.older(c) {
			f.req.Cursor = c
		}
	}
}

// seen reports whether the event at the cursor was already passed to take. If it was not, seen records the cursor.
func (f *feed) seen(cursor string) bool {
	n, err := strconv.ParseUint(cursor, 10, 64)
	if err != nil {
		return false
	}
	if n <= f.last {
		return true
	}
	f.last = n
	return false
}

// older reports whether the cursor is before the last event that was read.
func (f *feed) older(cursor string) bool {
	n, err := strconv.ParseUint(cursor, 10, 64)
	return err == nil && n < f.last
}

// resumable reports whether the stream can be continued where it ended. A server may end a stream because it shuts down
// or because the reader is too slow.
func (f *feed) resumable(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	if broken(ctx, err) {
		return true
	}
	if !f.worked {
		return false
	}
	switch status.Code(err) {
	case codes.Unavailable, codes.Aborted, codes.ResourceExhausted:
		return true
	case codes.Internal, codes.Unknown: // errors of the transport, such as a reset stream
		return reasonOf(err) == ""
	}
	return false
}

func (f *feed) tellLost() {
	if f.worked && !f.told && f.lost != nil {
		f.told = true
		f.lost()
	}
}

func (f *feed) tellBack() {
	if f.told && f.back != nil {
		f.back()
	}
	f.told = false
}
