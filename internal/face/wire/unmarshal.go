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

// Unmarshal reads the JSON object of a client into a request message. Nothing at all, and null, count as an empty
// object. Keys are the proto's own names; a key that is unknown or given twice, a value of the wrong type, and an enum
// value that does not exist are errors, which name the field and what was expected. So are JSON that is not UTF-8, that
// is too deep, or that is followed by more. The error is a gRPC status INVALID_ARGUMENT whose ErrorInfo has the field's
// own reason where it has one. What the values may be beyond their type is not checked here.
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

// syntax turns what the JSON decoder says into what a client is told, and leaves an error of ours as it is.
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

// position is what protojson begins its errors with. The first space is at times a no-break space.
var position = regexp.MustCompile(`^proto:[\s\x{a0}]*(\(line \d+:\d+\):[\s\x{a0}]*)?`)

func plain(err error) string { return position.ReplaceAllString(err.Error(), "") }
