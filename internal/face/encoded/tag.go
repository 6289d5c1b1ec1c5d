package encoded

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
)

// observedAt is the beginning of a field that says when a place was last listed. A JSON string cannot contain these
// bytes, because its quotes are escaped.
const observedAt = `"observed_at":"`

// observedAtNesting lists the open brackets inside which the key means that field: the response, its messages, and the items of its
// lists. Deeper down, a caller may have chosen the key, for example for a label.
var observedAtNesting = []string{"{", "{{", "{[{"}

// Tag returns a weak entity tag of a response as JSON. Responses that differ only in when places were last listed have the
// same tag: a place that was not listed recently says so in other fields.
func Tag(json []byte) string {
	h := sha256.New()
	var open []byte // the open brackets
	inString := false
	for {
		i := bytes.Index(json, []byte(observedAt))
		if i < 0 {
			break
		}
		open = openBrackets(open, json[:i], inString)
		i += len(observedAt)
		h.Write(json[:i])
		json, inString = json[i:], true
		if slices.Contains(observedAtNesting, string(open)) {
			json = json[max(0, bytes.IndexByte(json, '"')):]
		}
	}
	h.Write(json)
	return `W/"` + hex.EncodeToString(h.Sum(nil)[:16]) + `"`
}

// openBrackets returns the brackets of objects and lists that are open after this part of a JSON text. open has the brackets that are
// open before the part. inString means that the part begins inside a string.
func openBrackets(open, part []byte, inString bool) []byte {
	for i := 0; i < len(part); i++ {
		switch c := part[i]; {
		case c == '"':
			inString = !inString
		case inString && c == '\\':
			i++ // the next byte is escaped
		case inString:
		case c == '{' || c == '[':
			open = append(open, c)
		case c == '}' || c == ']':
			open = open[:max(0, len(open)-1)]
		}
	}
	return open
}
