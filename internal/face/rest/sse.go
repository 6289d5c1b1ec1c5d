package rest

import (
	"bytes"
	"encoding/json"
	"strings"

	"google.golang.org/protobuf/proto"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/face/wire"
)

const sseType = "text/event-stream"

// sse writes server-sent events, as browsers and many programs read them: each event of the fleet is one, with its
// cursor as the id, so that a client that connects again goes on where it was.
type sse struct{}

func (sse) mediaType() string { return sseType }

// open tells a client to wait 2 s before it connects again.
func (sse) open() []byte { return []byte("retry: 2000\n\n") }

func (sse) answer(m proto.Message) ([]byte, error) {
	a, ok := m.(*fleetv1.WatchFleetResponse)
	if !ok {
		return nil, errForeign
	}
	var b bytes.Buffer
	last := ""
	for _, e := range a.GetEvents() {
		data, err := wire.Marshal(e)
		if err != nil {
			return nil, err
		}
		last = e.GetCursor()
		block(&b, last, e.GetType().String(), data)
	}
	if c := a.GetCursor(); c != "" && c != last { // an id alone moves the client on without an event
		block(&b, c, "", nil)
	}
	return b.Bytes(), nil
}

// idle is a comment: proxies and clients that give up on silent connections see life, and nobody sees an event.
func (sse) idle() []byte { return []byte(": heartbeat\n\n") }

func (sse) failed(err error) []byte {
	var b bytes.Buffer
	block(&b, "", "error", wire.ErrorBody(err))
	return b.Bytes()
}

// ended tells a client that it has all it asked for. A browser's EventSource would connect again otherwise.
func (sse) ended(cursor string) []byte {
	data, _ := json.Marshal(map[string]string{"cursor": cursor}) // a string always can be
	var b bytes.Buffer
	block(&b, cursor, "end", data)
	return b.Bytes()
}

// oneLine takes out what would end a line in the middle of an id.
var oneLine = strings.NewReplacer("\r", "", "\n", "", "\x00", "")

// block writes one event. The JSON has no line break in it.
func block(b *bytes.Buffer, id, event string, data []byte) {
	if id != "" {
		b.WriteString("id: " + oneLine.Replace(id) + "\n")
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
