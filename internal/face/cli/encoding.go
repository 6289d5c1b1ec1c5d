package cli

import (
	"encoding/base64"
	"fmt"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
)

// decoded returns the bytes of a text that the server sent in the encoding. If the encoding is "", the server sent the
// text unchanged. The parameter what is the name of the text for errors.
func decoded(what, text, encoding string) ([]byte, error) {
	switch encoding {
	case "":
		return []byte(text), nil
	case "base64":
		return base64.StdEncoding.DecodeString(text)
	}
	return nil, fmt.Errorf("the server sent the %s in the encoding %q, which this version of fleet cannot read; use a newer fleet", what, encoding)
}

// encoded returns the bytes as the server would send them: unchanged if they are UTF-8, else in base64.
func encoded(data []byte) (text string, encoding *string) {
	if utf8.Valid(data) {
		return string(data), nil
	}
	return base64.StdEncoding.EncodeToString(data), proto.String("base64")
}
