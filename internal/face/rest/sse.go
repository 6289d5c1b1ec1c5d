package rest

import (
	"bytes"
	"encoding/json"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/face/wire"
)

const sseType = "text/event-stream"

// heartbeatHeader is the header with the longest silence of a stream of server-sent events, in seconds. A connection
// that is silent for longer is dead.
const heartbeatHeader = "Fleet-Heartbeat"

// sse writes server-sent events. Each event of the fleet becomes one server-sent event, with the cursor as its id. So a
// client that reconnects continues where it stopped.
type sse struct{}

func (sse) mediaType() string { return sseType }

// beginning tells the client to wait 2 s before it reconnects.
func (sse) beginning() []byte { return []byte("retry: 2000\n\n") }

// encode writes the events of the message, which must be a WatchFleetResponse.
func (sse) encode(m proto.Message) ([]byte, error) {
	a, ok := m.(*fleetv1.WatchFleetResponse)
	if !ok {
		return nil, errNotMessage
	}
	var b bytes.Buffer
	last := ""
	for _, e := range a.GetEvents() {
		data, err := wire.Marshal(e)
		if err != nil {
			return nil, err
		}
		last = e.GetCursor()
		writeEvent(&b, last, e.GetType().String(), data)
	}
	if c := a.GetCursor(); c != "" && c != last { // an id without data changes the client's position, but is not an event
		writeEvent(&b, c, "", nil)
	}
	return b.Bytes(), nil
}

// heartbeat writes a comment, which shows proxies and clients that the connection is alive. A comment is not an event.
func (sse) heartbeat() []byte { return []byte(": heartbeat\n\n") }

func (sse) errorEnd(err error) []byte {
	var b bytes.Buffer
	writeEvent(&b, "", "error", wire.ErrorBody(err))
	return b.Bytes()
}

// normalEnd tells the client that the stream is complete. Otherwise a browser's EventSource would reconnect.
func (sse) normalEnd(cursor string) []byte {
	data, _ := json.Marshal(map[string]string{"cursor": cursor}) // a string can always be marshalled
	var b bytes.Buffer
	writeEvent(&b, cursor, "end", data)
	return b.Bytes()
}

// messageEvents writes each message as one server-sent event, named after the message's kind. The last event is the result.
type messageEvents struct{ sse }

func (messageEvents) encode(m proto.Message) ([]byte, error) {
	data, err := wire.Marshal(m)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	writeEvent(&b, "", kindOf(m.ProtoReflect()), data)
	return b.Bytes(), nil
}

// kindOf returns the kind of the message: the name of the value of the enum field with the role kind, or "" if there is no such field.
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

// beginning writes nothing: a client must not repeat an interrupted call by itself.
func (messageEvents) beginning() []byte { return nil }

// normalEnd writes nothing, since the result ended the stream.
func (messageEvents) normalEnd(string) []byte { return nil }

// idCleaner removes line breaks, which would end an id field, and null characters, which an id must not contain.
var idCleaner = strings.NewReplacer("\r", "", "\n", "", "\x00", "")

// writeEvent writes one event without the fields that are empty. data is JSON without line breaks.
func writeEvent(b *bytes.Buffer, id, event string, data []byte) {
	if id != "" {
		b.WriteString("id: " + idCleaner.Replace(id) + "\n")
	}
	if event != "" {
		b.WriteString("event: " + event + "\n")
	}
	if data != nil {
		b.WriteString("data: ")
		b.Write(data)
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
}
