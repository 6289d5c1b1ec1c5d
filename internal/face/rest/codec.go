package rest

import (
	"errors"
	"io"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/proto"

	"fleet/internal/face/wire"
)

// codec is the gateway's marshaler. It writes what wire writes, and reads what has been read and checked before.
type codec struct{}

var (
	_ runtime.Marshaler = codec{}
	_ io.ReadCloser     = (*decoded)(nil)
)

// errForeign is about a value that the gateway never has with this package's options.
var errForeign = errors.New("rest: not a message of the API")

// decoded is the body of a request that has been read: the gateway's handlers ask their marshaler to read the body, and
// get the message back.
type decoded struct{ request proto.Message }

func (*decoded) Read([]byte) (int, error) { return 0, io.EOF }

func (*decoded) Close() error { return nil }

// ContentType is that of every answer that is not a stream.
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

// NewEncoder writes messages, each on its line.
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

// NewDecoder gives out the message of a body that has been read.
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
