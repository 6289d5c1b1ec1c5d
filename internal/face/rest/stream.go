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
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/face/wire"
)

// noDeadline removes a connection's deadline.
var noDeadline time.Time

// streamFormat is a format for the messages of a stream.
type streamFormat interface {
	mediaType() string
	beginning() []byte                    // written first
	encode(proto.Message) ([]byte, error) // one message of the service
	heartbeat() []byte                    // keeps a silent connection open
	errorEnd(error) []byte                // written last, after an error
	normalEnd(cursor string) []byte       // written last, after the last message
}

// streamItem is a message from the service, or the error that ends the stream.
type streamItem struct {
	message proto.Message
	err     error
}

// lastIsResult reports whether the last message of the method's stream is its result.
func (rt *route) lastIsResult() bool {
	last, _ := proto.GetExtension(rt.method.Options(), fleetv1.E_LastIsResult).(bool)
	return last
}

// streamHandler returns the handler of a method that streams messages. The gateway cannot handle it: it would wrap each message in
// an envelope, and it does not support server-sent events. The handler reads the next message only after it has written the
// previous one, so a slow client delays only itself.
func (f *face) streamHandler(rt *route) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, _ map[string]string) {
		request, err := readRequest(r)
		var format streamFormat
		if err == nil {
			format, err = rt.chooseFormat(r, request)
		}
		if err != nil {
			writeError(w, err)
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		ctx, err = runtime.AnnotateContext(ctx, f.gateway, r, rt.fullMethod())
		if err != nil {
			writeError(w, err)
			return
		}
		items := f.receiveAll(ctx, rt, request)
		defer func() {
			cancel()
			for range items { // until the receiver has ended
			}
		}()
		if format == nil {
			writeResult(w, items)
			return
		}
		if _, ok := format.(sse); ok { // NDJSON has no heartbeats, and a stream that ends with a result promises none
			w.Header().Set(heartbeatHeader, strconv.FormatFloat(f.config.Heartbeat.Seconds(), 'f', -1, 64))
		}
		s := &streamWriter{w: w, control: http.NewResponseController(w), format: format, timeout: f.writeTimeout}
		defer s.close()
		s.run(ctx, items, f.openingTime, f.config.Heartbeat)
	}
}

// chooseFormat returns the format that the client accepts, or nil if the client gets only the result of the method. For an
// EventSource that reconnects, it also sets the cursor of the request.
func (rt *route) chooseFormat(r *http.Request, request proto.Message) (streamFormat, error) {
	switch isSSE := acceptsMediaType(r, sseType); {
	case rt.lastIsResult() && isSSE:
		return messageEvents{}, nil
	case rt.lastIsResult():
		return nil, nil //nolint:nilnil // nil means the result
	case !isSSE:
		return ndjson{}, nil
	}
	watch, ok := request.(*fleetv1.WatchFleetRequest)
	if !ok {
		return nil, errNotMessage
	}
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		if !utf8.ValidString(last) {
			return nil, wire.Invalid(wire.ReasonInvalidArgument, "cursor", "the Last-Event-ID is not valid UTF-8; send the id of an event")
		}
		watch.Cursor = last
	}
	return sse{}, nil
}

// callStream calls a method that streams messages.
func (f *face) callStream(ctx context.Context, rt *route, request proto.Message) (recv func() (proto.Message, error), err error) {
	s, err := f.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, rt.fullMethod())
	if err != nil {
		return nil, err
	}
	if err := errors.Join(s.SendMsg(request), s.CloseSend()); err != nil {
		return nil, err
	}
	return func() (proto.Message, error) {
		m := rt.response.New().Interface()
		return m, s.RecvMsg(m)
	}, nil
}

// receiveAll calls a method and returns a channel with the messages of its stream and the error that ends it. It closes the
// channel after the error, or when ctx is done.
func (f *face) receiveAll(ctx context.Context, rt *route, request proto.Message) <-chan streamItem {
	items := make(chan streamItem)
	go func() {
		defer close(items)
		recv, err := f.callStream(ctx, rt, request)
		for {
			var next streamItem
			if err == nil {
				next.message, err = recv()
			}
			next.err = err
			select {
			case items <- next:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return items
}

// writeResult writes the last message of the stream, or the error that ends it.
func writeResult(w http.ResponseWriter, items <-chan streamItem) {
	_ = http.NewResponseController(w).SetReadDeadline(noDeadline) // the request is read, but the result may take long
	var last proto.Message
	for next := range items {
		switch {
		case next.err == nil:
			last = next.message
			continue
		case !errors.Is(next.err, io.EOF):
			writeError(w, next.err)
		case last == nil:
			writeError(w, errors.New("rest: the stream ended without a result"))
		default:
			data, err := codec{}.Marshal(last)
			if err != nil {
				writeError(w, err)
				return
			}
			w.Header().Set("Content-Type", codec{}.ContentType(nil))
			_, _ = w.Write(data) // the client may have disconnected
		}
		return
	}
}

// streamWriter writes a stream to a client.
type streamWriter struct {
	w          http.ResponseWriter
	control    *http.ResponseController
	format     streamFormat
	timeout    time.Duration // for writing one piece to the client
	headerSent bool          // the status and the beginning of the stream are sent
	cursor     string        // of the last message that had one
}

// run writes messages until the stream ends or the client disconnects. If an error comes first, within openingTime,
// it becomes the HTTP status. Later the status is already sent, so an error is written as the last piece.
func (s *streamWriter) run(ctx context.Context, items <-chan streamItem, openingTime, heartbeat time.Duration) {
	_ = s.control.SetReadDeadline(noDeadline) // the request is read; its deadline must not end the stream
	silence := time.NewTimer(openingTime)
	defer silence.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-silence.C:
			if s.headerSent {
				err = s.write(s.format.heartbeat())
			} else {
				err = s.write(nil)
			}
		case next, ok := <-items:
			if !ok || s.writeEnd(next) {
				return
			}
			err = s.writeMessage(next.message)
		}
		if err != nil {
			return
		}
		silence.Reset(heartbeat)
	}
}

// writeEnd writes the end of the stream if next ends it, and reports whether it does.
func (s *streamWriter) writeEnd(next streamItem) bool {
	switch {
	case next.err == nil:
		return false
	case errors.Is(next.err, io.EOF):
		_ = s.write(s.format.normalEnd(s.cursor))
	case s.headerSent:
		_ = s.write(s.format.errorEnd(next.err))
	default:
		writeError(s.w, next.err)
	}
	return true
}

// writeMessage writes a message and keeps its cursor for the end of the stream. If the message cannot be encoded, it writes the error.
func (s *streamWriter) writeMessage(m proto.Message) error {
	data, err := s.format.encode(m)
	if err != nil {
		_ = s.write(s.format.errorEnd(err))
		return err
	}
	if c, ok := m.(interface{ GetCursor() string }); ok && c.GetCursor() != "" {
		s.cursor = c.GetCursor()
	}
	return s.write(data)
}

// write sends a piece at once. Before the first piece, it sends the status and the beginning of the stream.
func (s *streamWriter) write(piece []byte) error {
	_ = s.control.SetWriteDeadline(time.Now().Add(s.timeout)) // replaces the server's deadline, which is too short for a stream
	if !s.headerSent {
		s.headerSent = true
		s.w.Header().Set("Content-Type", s.format.mediaType())
		s.w.Header().Set("X-Accel-Buffering", "no") // otherwise nginx buffers events
		s.w.WriteHeader(http.StatusOK)
		piece = append(s.format.beginning(), piece...)
	}
	if len(piece) > 0 {
		if _, err := s.w.Write(piece); err != nil {
			return err
		}
	}
	if err := s.control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// close removes the deadline from the connection, since other requests may use it.
func (s *streamWriter) close() { _ = s.control.SetWriteDeadline(noDeadline) }
