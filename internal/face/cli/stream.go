package cli

import (
	"context"
	"errors"
	"io"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fleetv1 "fleet/gen/fleet/v1"
)

// feed reads the event log from a cursor on: every event once and in order, over as many streams as it takes.
type feed struct {
	fleet fleetv1.FleetServiceClient
	// req is what to watch; its cursor moves on with what was read.
	req *fleetv1.WatchFleetRequest
	// patience is how long the log may be out of reach; negative means for ever.
	patience time.Duration
	// lost and back are told when a stream broke that had worked, and when the next one works.
	lost, back func()

	last   uint64 // position of the last event that was taken
	worked bool   // a stream has worked
	outage pause
	told   bool
}

// run calls take with each event until take returns an error, the log cannot be reached any more, or, when the request
// does not follow, its end. A stream that the server ends is an end only when done says so; done may be nil.
func (f *feed) run(ctx context.Context, take func(*fleetv1.Event) error, done func() (bool, error)) error {
	for {
		progress, err := f.once(ctx, take)
		var own *taken
		switch {
		case errors.As(err, &own):
			return own.err
		case err == nil && !f.req.GetFollow():
			if !progress {
				return nil
			}
			continue
		case err == nil && done != nil:
			if over, err := done(); over || err != nil {
				return err
			}
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

// taken carries an error of the caller's own function out of the loop.
type taken struct{ err error }

// Error is the caller's.
func (t *taken) Error() string { return t.err.Error() }

// once reads one stream to its end, and says whether it brought events.
func (f *feed) once(ctx context.Context, take func(*fleetv1.Event) error) (progress bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := f.fleet.WatchFleet(ctx, f.req)
	if err != nil {
		return false, err
	}
	for {
		resp, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			f.worked = true
			return progress, nil
		}
		if err != nil {
			return progress, err
		}
		f.worked, f.outage = true, pause{}
		f.tellBack()
		for _, e := range resp.GetEvents() {
			if f.seen(e.GetCursor()) {
				continue
			}
			progress = true
			if err := take(e); err != nil {
				return true, &taken{err}
			}
			f.req.Cursor = e.GetCursor()
		}
		if c := resp.GetCursor(); c != "" && !f.older(c) {
			f.req.Cursor = c
		}
	}
}

// seen says whether the event at the cursor was taken already, and notes it otherwise.
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

// older says whether the cursor lies before what was read.
func (f *feed) older(cursor string) bool {
	n, err := strconv.ParseUint(cursor, 10, 64)
	return err == nil && n < f.last
}

// resumable says whether the stream can be taken up again where it ended. A server may end a stream because it goes
// down, or because its reader is too slow.
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
	case codes.Internal, codes.Unknown: // of the transport: a stream that was reset
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
