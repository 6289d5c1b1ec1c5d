package rest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

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

// watch answers a call of a method that streams events. It reads the next answer only after it has written the previous
// one, so a slow client delays only itself.
func (f *face) watch(ctx context.Context, w http.ResponseWriter, r *http.Request, rt *route, request proto.Message) {
	var form stream = lines{}
	if accepts(r, sseType) {
		form = sse{}
		if err := resume(r, request); err != nil {
			writeError(w, err)
			return
		}
	}
	answers, end := f.receive(ctx, rt, request)
	defer end()
	w.Header().Set(heartbeatHeader, strconv.FormatFloat(f.config.Heartbeat.Seconds(), 'f', -1, 64))
	f.pipe(ctx, w, form, answers)
}

// resume sets the cursor of the request to the last event that a client of server-sent events has.
func resume(r *http.Request, request proto.Message) error {
	last := r.Header.Get("Last-Event-ID")
	m, ok := request.(*fleetv1.WatchFleetRequest)
	if last == "" || !ok {
		return nil
	}
	if !utf8.ValidString(last) {
		return wire.Invalid(invalidArgument, "cursor", "the Last-Event-ID is not valid UTF-8; send the id of an event")
	}
	m.Cursor = last
	return nil
}

// receive calls a method that streams its answers. It returns a channel with the answers and the error that ends the
// stream, and a function that ends the call. The channel is closed after the error, or when the call is ended.
func (f *face) receive(ctx context.Context, rt *route, request proto.Message) (_ <-chan received, end func()) {
	ctx, cancel := context.WithCancel(ctx)
	answers := make(chan received)
	go func() {
		defer close(answers)
		recv, err := f.stream(ctx, rt.name, request, rt.answer)
		for {
			var next received
			if err == nil {
				next.answer, err = recv()
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
	return answers, func() {
		cancel()
		for range answers { // until the goroutine has ended
		}
	}
}

// pipe writes a stream of answers to a client until the stream ends or ctx is done.
func (f *face) pipe(ctx context.Context, w http.ResponseWriter, form stream, answers <-chan received) {
	p := &pipe{w: w, control: http.NewResponseController(w), form: form, patience: f.patience}
	defer p.close()
	p.run(ctx, answers, f.opening, f.config.Heartbeat)
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
