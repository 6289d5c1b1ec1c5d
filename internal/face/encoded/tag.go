package encoded

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
)

// observedAt is the beginning of a field that says when a place was last listed. A JSON string cannot contain these
// bytes, because its quotes are escaped.
const observedAt = `"observed_at":"`

// maxDepth is how deep in objects and lists such a field can be: places are the items of a list of the response. A deeper one is
// something else, for example a label, which can have any key.
const maxDepth = 3

// Tag returns a weak entity tag of a response as JSON. Responses that differ only in when places were last listed have the
// same tag: a place that was not listed recently says so in other fields.
func Tag(json []byte) string {
	h := sha256.New()
	depth, inString := 0, false // at the beginning of json
	for {
		i := bytes.Index(json, []byte(observedAt))
		if i < 0 {
			break
		}
		depth += depthChange(json[:i], inString)
		i += len(observedAt)
		h.Write(json[:i])
		json, inString = json[i:], true
		if depth <= maxDepth {
			json = json[max(0, bytes.IndexByte(json, '"')):]
		}
	}
	h.Write(json)
	return `W/"` + hex.EncodeToString(h.Sum(nil)[:16]) + `"`
}

// depthChange returns how many objects and lists begin in this part of a JSON text, minus how many end in it. inString means that the
// part begins inside a string.
func depthChange(part []byte, inString bool) (depth int) {
	for i := 0; i < len(part); i++ {
		switch c := part[i]; {
		case c == '"':
			inString = !inString
		case inString && c == '\\':
			i++ // the next byte is escaped
		case inString:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		}
	}
	return depth
}
