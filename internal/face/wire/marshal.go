package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Answer is a message that the server sends. protoc-gen-fleet-json generates its method AppendJSON.
type Answer interface {
	proto.Message
	// AppendJSON appends the message to b. It appends null if the message is nil.
	AppendJSON(b []byte) []byte
}

// Marshal returns the message as compact JSON. Keys are in snake_case, and enum values are the proto's lower-case
// names. Every field has a key, except unset optional fields. An unset message or wrapper is null. The result equals
// the output of protojson with UseProtoNames and EmitUnpopulated, without the spaces that protojson inserts at random.
// Equal messages have equal bytes, and clients may rely on that.
//
// Marshal leaves messages of other packages, and messages that the server never sends, to protojson.
func Marshal(m proto.Message) ([]byte, error) {
	a, ok := m.(Answer)
	if !ok {
		return marshalOther(m)
	}
	// JSON is larger than the wire format; allocating more is cheaper than growing.
	b := a.AppendJSON(make([]byte, 0, 64+5*proto.Size(m)))
	// AppendJSON appends the byte unwritable, which is not UTF-8, for a value that JSON cannot represent.
	if !utf8.Valid(b) {
		at := firstInvalid(b)
		return nil, fmt.Errorf("wire: marshal %s: invalid UTF-8 or a value that JSON cannot represent, after %.40q",
			m.ProtoReflect().Descriptor().FullName(), b[max(0, at-40):at])
	}
	return b, nil
}

func marshalOther(m proto.Message) ([]byte, error) {
	var b bytes.Buffer
	loose, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(m)
	if err == nil {
		err = json.Compact(&b, loose)
	}
	if err != nil {
		return nil, fmt.Errorf("wire: marshal %s: %w", m.ProtoReflect().Descriptor().FullName(), err)
	}
	return b.Bytes(), nil
}
