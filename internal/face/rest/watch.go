package rest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/proto"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/face/wire"
)

// stream is a format for the answers of a streaming method.
type stream interface {
	mediaType() string
	open() []byte                         // what is written first
	answer(proto.Message) ([]byte, error) // one answer of the service
	idle() []byte                         // keeps a silent connection open
	fail(error) []byte                    // written last, after an error
	end(cursor string) []byte             // written last, after the last answer
}

// received is an answer from the service, or the error that ends the stream.
type received struct {
	answer proto.Message
	err    error
}

// watch serves GET /v1/events. The gateway cannot: it would wrap each answer in an envelope, and it does not support
// server-sent events. watch reads the next answer only after it has written the previous one, so a slow client delays
// only itself.
func (f *face) watch(w http.ResponseWriter, r *http.Request, _ map[string]string) {
	request, form, err := watchRequest(r)
	if err != nil {
		writeError(w, err)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	ctx, err = runtime.AnnotateContext(ctx, f.gateway, r, fleetv1.FleetService_WatchFleet_FullMethodName)
	if err != nil {
		cancel()
		writeError(w, err)
		return
	}
	answers := receive(ctx, func() (func() (*fleetv1.WatchFleetResponse, error), error) {
		client, err := f.fleet.WatchFleet(ctx, request)
		if err != nil {
			return nil, err
		}
		return client.Recv, nil
	})
	defer func() {
		cancel()
		for range answers { // until the receiver has ended
		}
	}()
	p := &pipe{w: w, control: http.NewResponseController(w), form: form, patience: f.patience}
	defer p.close()
	w.Header().Set(heartbeatHeader, strconv.FormatFloat(f.config.Heartbeat.Seconds(), 'f', -1, 64))
	p.run(ctx, answers, f.opening, f.config.Heartbeat)
}

// watchRequest returns the request, and the format that the client wants.
func watchRequest(r *http.Request) (*fleetv1.WatchFleetRequest, stream, error) {
	m, err := requestOf(r)
	if err != nil {
		return nil, nil, err
	}
	request, ok := m.(*fleetv1.WatchFleetRequest)
	if !ok {
		return nil, nil, errNotMessage
	}
	if !accepts(r, sseType) {
		return request, lines{}, nil
	}
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		if !utf8.ValidString(last) {
			return nil, nil, wire.Invalid(invalidArgument, "cursor", "the Last-Event-ID is not valid UTF-8; send the id of an event")
		}
		request.Cursor = last
	}
	return request, sse{}, nil
}

// receive opens a stream and returns a channel with its messages and the error that ends it. It closes the channel
// after the error, or when ctx is done.
func receive[M proto.Message](ctx context.Context, open func() (recv func() (M, error), err error)) <-chan received {
	answers := make(chan received)
	go func() {
		defer close(answers)
		recv, err := open()
		for {
			var next received
			if err == nil {
				var m M
				if m, err = recv(); err == nil {
					next.answer = m
				}
			}
			next.err = err
			select {
			case answers <- next:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return answers
}

// pipe writes a stream to a client.
type pipe struct {
	w        http.ResponseWriter
	control  *http.ResponseController
	form     stream
	patience time.Duration
	opened   bool
	cursor   string
}

// run writes messages until the stream ends or the client disconnects. If an error comes first, within the opening
// time, it becomes the HTTP status. Later the status is already sent, so an error is written as the last piece.
func (p *pipe) run(ctx context.Context, answers <-chan received, opening, heartbeat time.Duration) {
	_ = p.control.SetReadDeadline(time.Time{}) // the request is read; its deadline must not end the stream
	silence := time.NewTimer(opening)
	defer silence.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-silence.C:
			if p.opened {
				err = p.write(p.form.idle())
			} else {
				err = p.write(nil)
			}
		case next, ok := <-answers:
			if !ok || p.last(next) {
				return
			}
			err = p.pass(next.answer)
		}
		if err != nil {
			return
		}
		silence.Reset(heartbeat)
	}
}

// last reports whether next ends the stream. If it does, last writes the end of the stream.
func (p *pipe) last(next received) bool {
	switch {
	case next.err == nil:
		return false
	case errors.Is(next.err, io.EOF):
		_ = p.write(p.form.end(p.cursor))
	case p.opened:
		_ = p.write(p.form.fail(next.err))
	default:
		writeError(p.w, next.err)
	}
	return true
}

func (p *pipe) pass(answer proto.Message) error {
	piece, err := p.form.answer(answer)
	if err != nil {
		_ = p.write(p.form.fail(err))
		return err
	}
	if at, ok := answer.(interface{ GetCursor() string }); ok && at.GetCursor() != "" {
		p.cursor = at.GetCursor()
	}
	return p.write(piece)
}

// write sends a piece at once. It sends the opening before the first piece.
func (p *pipe) write(piece []byte) error {
	_ = p.control.SetWriteDeadline(time.Now().Add(p.patience)) // replaces the server's deadline, which is too short for a stream
	if !p.opened {
		p.opened = true
		p.w.Header().Set("Content-Type", p.form.mediaType())
		p.w.Header().Set("X-Accel-Buffering", "no") // otherwise nginx buffers events
		p.w.WriteHeader(http.StatusOK)
		piece = append(p.form.open(), piece...)
	}
	if len(piece) > 0 {
		if _, err := p.w.Write(piece); err != nil {
			return err
		}
	}
	if err := p.control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// close removes the deadline from the connection, since other requests may use it.
func (p *pipe) close() { _ = p.control.SetWriteDeadline(time.Time{}) }
