package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Marshal returns the message as compact JSON. Keys are in snake_case, and enum values are the proto's lower-case
// names. Every field has a key, except unset optional fields. An unset message or wrapper is null. The result equals
// the output of protojson with UseProtoNames and EmitUnpopulated, without the spaces that protojson inserts at random.
// Equal messages have equal bytes, and clients may rely on that.
//
// The descriptor of the message determines what is written. For Google's message types that no message of the API has as a field,
// Marshal uses protojson.
func Marshal(m proto.Message) ([]byte, error) {
	// JSON is larger than the wire format; allocating more is cheaper than growing.
	b := appendAnyMessage(make([]byte, 0, 64+5*proto.Size(m)), m.ProtoReflect())
	// The byte unwritable, which is not UTF-8, stands for a value that JSON cannot represent.
	if !utf8.Valid(b) {
		at := firstInvalid(b)
		return nil, fmt.Errorf("wire: marshal %s: invalid UTF-8 or a value that JSON cannot represent, after %.40q",
			m.ProtoReflect().Descriptor().FullName(), b[max(0, at-40):at])
	}
	return b, nil
}

// marshalForeign returns what protojson writes for one of Google's messages, without spaces.
func marshalForeign(m proto.Message) ([]byte, error) {
	var b bytes.Buffer
	spacedJSON, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(m)
	if err == nil {
		err = json.Compact(&b, spacedJSON)
	}
	if err != nil {
		return nil, fmt.Errorf("wire: marshal %s: %w", m.ProtoReflect().Descriptor().FullName(), err)
	}
	return b.Bytes(), nil
}
