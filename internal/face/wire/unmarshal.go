package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Unmarshal reads a client's JSON object into a request message. Empty input and null count as an empty object. Keys
// are the proto's field names. Unknown or repeated keys, values of the wrong type and unknown enum values are errors
// that name the field and what was expected. JSON that is not UTF-8, is nested too deeply, or is followed by more data
// is an error too. The error is a gRPC status INVALID_ARGUMENT whose ErrorInfo has the field's own reason if it has
// one. Only types are checked here.
func Unmarshal(data []byte, m proto.Message) error {
	proto.Reset(m)
	if err := Check(data); err != nil {
		return err
	}
	if trimmed := bytes.TrimSpace(data); len(trimmed) == 0 || string(trimmed) == "null" {
		return nil
	}
	c := newChecker(data)
	if err := c.root(m.ProtoReflect().Descriptor()); err != nil {
		return syntax(err)
	}
	if err := protojson.Unmarshal(data, m); err != nil {
		return Invalid(invalidArgument, "", "The JSON cannot be read: %s.", plain(err))
	}
	return nil
}

// syntax rewrites an error of the JSON decoder for clients, and returns our own errors unchanged.
func syntax(err error) error {
	var s *json.SyntaxError
	switch {
	case errors.As(err, &s):
		return Invalid(invalidArgument, "", "The JSON is not valid at byte %d: %s.", s.Offset, s.Error())
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return Invalid(invalidArgument, "", "The JSON ends too early.")
	}
	return err
}

// position matches the prefix of protojson's errors. Its first space is sometimes a no-break space.
var position = regexp.MustCompile(`^proto:[\s\x{a0}]*(\(line \d+:\d+\):[\s\x{a0}]*)?`)

func plain(err error) string { return position.ReplaceAllString(err.Error(), "") }
