package rest

import (
	"google.golang.org/protobuf/proto"

	"fleet/internal/face/wire"
)

// lines writes each answer as a line of JSON, for programs that do not support server-sent events. After an error the
// last line is the error object.
type lines struct{}

func (lines) mediaType() string { return "application/x-ndjson" }

func (lines) open() []byte { return nil }

func (lines) answer(a proto.Message) ([]byte, error) {
	data, err := wire.Marshal(a)
	if err != nil {
		return nil, err
	}
	return append(data, '\n'), nil
}

// idle writes nothing, since an empty line is not JSON.
func (lines) idle() []byte { return nil }

func (lines) fail(err error) []byte { return append(wire.ErrorBody(err), '\n') }

func (lines) end(string) []byte { return nil }
