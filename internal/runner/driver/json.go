package driver

import (
	"encoding/json"
	"errors"
)

// encodeJSON encodes v as JSON. v must be encodable.
func encodeJSON(v any) json.RawMessage {
	b, _ := json.Marshal(v)
	return b
}

// isTypeError reports whether json.Unmarshal returned err because a field has another type than expected. The other fields were
// decoded.
func isTypeError(err error) bool {
	_, ok := errors.AsType[*json.UnmarshalTypeError](err)
	return ok
}
