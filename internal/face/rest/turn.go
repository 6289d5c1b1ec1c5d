package rest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/face/wire"
)

// noDeadline removes a connection's deadline.
var noDeadline time.Time

// isTurn reports whether the method returns a stream whose last message is its result.
func (rt *route) isTurn() bool {
	last, _ := proto.GetExtension(rt.method.Options(), fleetv1.E_LastIsResult).(bool)
	return last && rt.method.IsStreamingServer()
}

// handleTurn returns the handler of a method whose last message is its result. A client that accepts server-sent events gets
// every message as it comes. Any other client gets only the result, as a plain answer.
func (f *face) handleTurn(rt *route) (runtime.HandlerFunc, error) {
	answer, err := protoregistry.GlobalTypes.FindMessageByName(rt.method.Output().FullName())
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("/%s/%s", rt.method.Parent().FullName(), rt.method.Name())
	return func(w http.ResponseWriter, r *http.Request, _ map[string]string) {
		request, err := requestOf(r)
		if err != nil {
			writeError(w, err)
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		ctx, err = runtime.AnnotateContext(ctx, f.gateway, r, name)
		if err != nil {
			cancel()
			writeError(w, err)
			return
		}
		answers := receiveAll(ctx, func() (func() (proto.Message, error), error) {
			return f.callStream(ctx, name, request, answer)
		})
		defer func() {
			cancel()
			for range answers { // until the receiver has ended
			}
		}()
		if !accepts(r, sseType) {
			f.writeResult(w, answers)
			return
		}
		p := &streamWriter{w: w, control: http.NewResponseController(w), format: messageEvents{}, patience: f.writeTimeout}
		defer p.close()
		p.run(ctx, answers, f.openingTime, f.config.Heartbeat)
	}, nil
}

// callStream calls a method that streams its answers.
func (f *face) callStream(ctx context.Context, name string, request proto.Message, answer protoreflect.MessageType) (func() (proto.Message, error), error) {
	s, err := f.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, name)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(s.SendMsg(request), s.CloseSend()); err != nil {
		return nil, err
	}
	return func() (proto.Message, error) {
		m := answer.New().Interface()
		return m, s.RecvMsg(m)
	}, nil
}

// writeResult writes the last message of the stream.
func (f *face) writeResult(w http.ResponseWriter, answers <-chan streamItem) {
	_ = http.NewResponseController(w).SetReadDeadline(noDeadline) // the request is read, but the answer may take long
	var last proto.Message
	for next := range answers {
		switch {
		case next.err == nil:
			last = next.answer
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

// messageEvents writes each message as one server-sent event, named after the message's kind. The last event is the result.
type messageEvents struct{ sse }

func (messageEvents) answer(m proto.Message) ([]byte, error) {
	data, err := wire.Marshal(m)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	writeEvent(&b, "", kindOf(m.ProtoReflect()), data)
	return b.Bytes(), nil
}

// kindOf returns the value of the field that tells the kind of the message, or "" if the message has no such field.
func kindOf(m protoreflect.Message) string {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if s, _ := proto.GetExtension(f.Options(), fleetv1.E_Shown).(*fleetv1.Shown); s.GetRole() != fleetv1.Shown_kind || f.Enum() == nil {
			continue
		}
		if v := f.Enum().Values().ByNumber(m.Get(f).Enum()); v != nil {
			return string(v.Name())
		}
	}
	return ""
}

// open writes nothing: a client must not repeat an interrupted turn by itself.
func (messageEvents) open() []byte { return nil }

// end writes nothing, since the result ended the stream.
func (messageEvents) end(string) []byte { return nil }
