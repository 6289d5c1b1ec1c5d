package wire

import (
	"bytes"
	"regexp"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Unmarshal reads a client's JSON object into a request message. Empty input and null count as an empty object. Keys
// are the proto's field names, and a field that is null counts as not given. Unknown or repeated keys, values of the
// wrong type and unknown enum values are errors that name the field and what was expected. JSON that is not UTF-8, is
// nested too deeply, or is followed by more data is an error too. The error is a gRPC status INVALID_ARGUMENT with the
// reason that InvalidReason returns for the field. Unmarshal checks the types of values, and nothing else about them.
//
// The descriptor of the message says what is read. If m itself is one of Google's messages, protojson reads it.
func Unmarshal(data []byte, m proto.Message) error {
	proto.Reset(m)
	if trimmed := bytes.TrimSpace(data); len(trimmed) == 0 || string(trimmed) == "null" {
		return nil
	}
	if isForeign(m.ProtoReflect().Descriptor()) {
		return unmarshalForeign(data, m)
	}
	r := reader{data: data, request: m.ProtoReflect(), depth: 2} // the request is the first level
	r.readRequest()
	return r.err
}

// errorPrefix matches the prefix of protojson's errors. Its first space is sometimes a no-break space.
var errorPrefix = regexp.MustCompile(`^proto:[\s\x{a0}]*(\(line \d+:\d+\):[\s\x{a0}]*)?`)

func unmarshalForeign(data []byte, m proto.Message) error {
	if err := protojson.Unmarshal(data, m); err != nil {
		return Invalid(ReasonInvalidArgument, "", "the JSON cannot be read: %s", errorPrefix.ReplaceAllString(err.Error(), ""))
	}
	return nil
}
