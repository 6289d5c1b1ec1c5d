package rest

import (
	"google.golang.org/protobuf/proto"

	"fleet/internal/face/wire"
)

// ndjson writes each message as a line of JSON, for programs that do not support server-sent events. After an error the
// last line is the error object.
type ndjson struct{}

func (ndjson) mediaType() string { return "application/x-ndjson" }

func (ndjson) beginning() []byte { return nil }

func (ndjson) encode(m proto.Message) ([]byte, error) {
	data, err := wire.Marshal(m)
	if err != nil {
		return nil, err
	}
	return append(data, '\n'), nil
}

// heartbeat writes nothing, since an empty line is not JSON.
func (ndjson) heartbeat() []byte { return nil }

func (ndjson) errorEnd(err error) []byte { return append(wire.ErrorBody(err), '\n') }

func (ndjson) normalEnd(string) []byte { return nil }
