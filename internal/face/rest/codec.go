package rest

import (
	"errors"
	"io"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/proto"

	"fleet/internal/face/wire"
)

// codec is the gateway's marshaler. It writes JSON as package wire does. Requests have been read and checked before it
// is asked.
type codec struct{}

var (
	_ runtime.Marshaler = codec{}
	_ io.ReadCloser     = (*decoded)(nil)
)

// errForeign is returned for values that the gateway never passes with this package's options.
var errForeign = errors.New("rest: not a message of the API")

// decoded is a request body that has been read already. The gateway's handlers ask their marshaler to read the body and
// get this message.
type decoded struct{ request proto.Message }

func (*decoded) Read([]byte) (int, error) { return 0, io.EOF }

func (*decoded) Close() error { return nil }

// ContentType is the content type of every answer that is not a stream.
func (codec) ContentType(any) string { return "application/json" }

// Marshal returns the message as one line of JSON.
func (codec) Marshal(v any) ([]byte, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return nil, errForeign
	}
	data, err := wire.Marshal(m)
	if err != nil {
		return nil, err
	}
	return append(data, '\n'), nil
}

// Unmarshal is never called.
func (codec) Unmarshal([]byte, any) error { return errForeign }

// NewEncoder returns an encoder that writes each message on a line of its own.
func (c codec) NewEncoder(w io.Writer) runtime.Encoder {
	return runtime.EncoderFunc(func(v any) error {
		data, err := c.Marshal(v)
		if err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	})
}

// NewDecoder returns a decoder that gives out the message of a body that has been read.
func (codec) NewDecoder(r io.Reader) runtime.Decoder {
	return runtime.DecoderFunc(func(v any) error {
		body, ok := r.(*decoded)
		m, isMessage := v.(proto.Message)
		if !ok || !isMessage {
			return errForeign
		}
		proto.Merge(m, body.request)
		return nil
	})
}
