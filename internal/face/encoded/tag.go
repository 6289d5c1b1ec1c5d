package encoded

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
)

// observedAt is the beginning of a field that says when a place was last listed. A JSON string cannot contain these
// bytes, because its quotes are escaped.
const observedAt = `"observed_at":"`

// Tag returns a weak entity tag of a response as JSON. Responses that differ only in when places were last listed have the
// same tag: a place that was not listed recently says so in other fields.
func Tag(json []byte) string {
	h := sha256.New()
	for {
		i := bytes.Index(json, []byte(observedAt))
		if i < 0 {
			break
		}
		i += len(observedAt)
		h.Write(json[:i])
		json = json[i:]
		json = json[max(0, bytes.IndexByte(json, '"')):]
	}
	h.Write(json)
	return `W/"` + hex.EncodeToString(h.Sum(nil)[:16]) + `"`
}
