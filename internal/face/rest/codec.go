package rest

import (
	"errors"
	"io"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/proto"

	"fleet/internal/face/encoded"
	"fleet/internal/face/wire"
)

// codec is the gateway's marshaler. It reads and writes the JSON of package wire.
type codec struct{}

var _ runtime.Marshaler = codec{}

// errNotMessage is returned for a message or a body of a type that the code does not expect. It means a mistake in this package.
var errNotMessage = errors.New("rest: not a message of the API")

// ContentType is the content type of every response that is not a stream.
func (codec) ContentType(any) string { return "application/json" }

// Marshal returns the message as one line of JSON.
func (codec) Marshal(v any) ([]byte, error) {
	if a, ok := v.(*encoded.Response); ok {
		j, err := a.JSON()
		if err != nil {
			return nil, err
		}
		return j.Line, nil
	}
	m, ok := v.(proto.Message)
	if !ok {
		return nil, errNotMessage
	}
	data, err := wire.Marshal(m)
	if err != nil {
		return nil, err
	}
	return append(data, '\n'), nil
}

// Unmarshal is never called, because the gateway reads bodies with NewDecoder.
func (codec) Unmarshal([]byte, any) error { return errNotMessage }

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

// NewDecoder returns a decoder that reads r, which must be a *body. The decoder keeps its error in the body, for handleCallError.
func (codec) NewDecoder(r io.Reader) runtime.Decoder {
	return runtime.DecoderFunc(func(v any) error {
		b, ok := r.(*body)
		m, isMessage := v.(proto.Message)
		if !ok || !isMessage {
			return errNotMessage
		}
		b.err = b.read(m)
		return b.err
	})
}
