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

// streamFormat is a format for the answers of a streaming method.
type streamFormat interface {
	mediaType() string
	open() []byte                         // what is written first
	answer(proto.Message) ([]byte, error) // one answer of the service
	idle() []byte                         // keeps a silent connection open
	fail(error) []byte                    // written last, after an error
	end(cursor string) []byte             // written last, after the last answer
}

// streamItem is an answer from the service, or the error that ends the stream.
type streamItem struct {
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
	answers := receiveAll(ctx, func() (func() (*fleetv1.WatchFleetResponse, error), error) {
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
	p := &streamWriter{w: w, control: http.NewResponseController(w), format: form, patience: f.writeTimeout}
	defer p.close()
	w.Header().Set(heartbeatHeader, strconv.FormatFloat(f.config.Heartbeat.Seconds(), 'f', -1, 64))
	p.run(ctx, answers, f.openingTime, f.config.Heartbeat)
}

// watchRequest returns the request, and the format that the client wants.
func watchRequest(r *http.Request) (*fleetv1.WatchFleetRequest, streamFormat, error) {
	m, err := requestOf(r)
	if err != nil {
		return nil, nil, err
	}
	request, ok := m.(*fleetv1.WatchFleetRequest)
	if !ok {
		return nil, nil, errNotMessage
	}
	if !accepts(r, sseType) {
		return request, ndjson{}, nil
	}
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		if !utf8.ValidString(last) {
			return nil, nil, wire.Invalid(invalidArgument, "cursor", "the Last-Event-ID is not valid UTF-8; send the id of an event")
		}
		request.Cursor = last
	}
	return request, sse{}, nil
}

// receiveAll opens a stream and returns a channel with its messages and the error that ends it. It closes the channel
// after the error, or when ctx is done.
func receiveAll[M proto.Message](ctx context.Context, openStream func() (recv func() (M, error), err error)) <-chan streamItem {
	answers := make(chan streamItem)
	go func() {
		defer close(answers)
		recv, err := openStream()
		for {
			var next streamItem
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

// streamWriter writes a stream to a client.
type streamWriter struct {
	w        http.ResponseWriter
	control  *http.ResponseController
	format   streamFormat
	patience time.Duration
	opened   bool
	cursor   string
}

// run writes answers until the stream ends or the client disconnects. If an error comes first, within the opening
// time, it becomes the HTTP status. Later the status is already sent, so an error is written as the last piece.
func (p *streamWriter) run(ctx context.Context, answers <-chan streamItem, opening, heartbeat time.Duration) {
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
				err = p.write(p.format.idle())
			} else {
				err = p.write(nil)
			}
		case next, ok := <-answers:
			if !ok || p.writeEnd(next) {
				return
			}
			err = p.writeAnswer(next.answer)
		}
		if err != nil {
			return
		}
		silence.Reset(heartbeat)
	}
}

// writeEnd writes the end of the stream if next ends it, and reports whether it does.
func (p *streamWriter) writeEnd(next streamItem) bool {
	switch {
	case next.err == nil:
		return false
	case errors.Is(next.err, io.EOF):
		_ = p.write(p.format.end(p.cursor))
	case p.opened:
		_ = p.write(p.format.fail(next.err))
	default:
		writeError(p.w, next.err)
	}
	return true
}

func (p *streamWriter) writeAnswer(answer proto.Message) error {
	data, err := p.format.answer(answer)
	if err != nil {
		_ = p.write(p.format.fail(err))
		return err
	}
	if message, ok := answer.(interface{ GetCursor() string }); ok && message.GetCursor() != "" {
		p.cursor = message.GetCursor()
	}
	return p.write(data)
}

// write sends a piece at once. It sends the opening before the first piece.
func (p *streamWriter) write(piece []byte) error {
	_ = p.control.SetWriteDeadline(time.Now().Add(p.patience)) // replaces the server's deadline, which is too short for a stream
	if !p.opened {
		p.opened = true
		p.w.Header().Set("Content-Type", p.format.mediaType())
		p.w.Header().Set("X-Accel-Buffering", "no") // otherwise nginx buffers events
		p.w.WriteHeader(http.StatusOK)
		piece = append(p.format.open(), piece...)
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
func (p *streamWriter) close() { _ = p.control.SetWriteDeadline(time.Time{}) }
