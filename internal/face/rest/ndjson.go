package rest

import (
	"google.golang.org/protobuf/proto"

	"fleet/internal/face/wire"
)

// ndjson writes each message as a line of JSON, for programs that do not support server-sent events. After an error the
// last line is the error object.
type ndjson struct{}

func (ndjson) mediaType() string { return "application/x-ndjson" }

func (ndjson) open() []byte { return nil }

func (ndjson) encode(m proto.Message) ([]byte, error) {
	data, err := wire.Marshal(m)
	if err != nil {
		return nil, err
	}
	return append(data, '\n'), nil
}

// idle writes nothing, since an empty line is not JSON.
func (ndjson) idle() []byte { return nil }

func (ndjson) fail(err error) []byte { return append(wire.ErrorBody(err), '\n') }

func (ndjson) end(string) []byte { return nil }
