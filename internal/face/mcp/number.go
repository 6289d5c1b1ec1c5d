package mcp

import (
	"bytes"
	"encoding/json"
)

// exactPrefix marks a text that stands for a number. mcp-go reads ids and progress tokens as float64. It rounds integers above 2^53,
// and writes 1.0 as 1. A client cannot match a response with a changed id to its request.
const exactPrefix = "number:"

// exactNumbersByText contains the numbers of a message that mcp-go would change. The keys are the JSON texts that stand for
// them.
type exactNumbersByText map[string]json.RawMessage

// replaceInexact puts texts in place of the ids and progress tokens that mcp-go would change. It returns the new message, and the
// numbers that the texts stand for.
func replaceInexact(message []byte, e envelope) ([]byte, exactNumbersByText) {
	if !isInexact(e.ID) && !isInexact(e.Params.RequestID) && !isInexact(e.Params.Meta.token) {
		return message, nil
	}
	x := exactNumbersByText{}
	out := x.replaceMembers(message, map[string]func(json.RawMessage) json.RawMessage{
		"id": x.replace,
		"params": func(params json.RawMessage) json.RawMessage {
			return x.replaceMembers(params, map[string]func(json.RawMessage) json.RawMessage{
				"requestId": x.replace,
				"_meta": func(meta json.RawMessage) json.RawMessage {
					return x.replaceMembers(meta, map[string]func(json.RawMessage) json.RawMessage{"progressToken": x.replace})
				},
			})
		},
	})
	return out, x
}

// isInexact reports whether the value is a number that differs after mcp-go has read and written it.
func isInexact(value json.RawMessage) bool {
	var f float64
	if len(value) == 0 || value[0] != '-' && (value[0] < '0' || value[0] > '9') {
		return false
	}
	if json.Unmarshal(value, &f) != nil {
		return true
	}
	var written []byte
	if f == float64(int64(f)) {
		written, _ = json.Marshal(int64(f)) // cannot fail
	} else {
		written, _ = json.Marshal(f)
	}
	return !bytes.Equal(written, value)
}

// replace returns a text in place of the value if mcp-go would change it.
func (e exactNumbersByText) replace(value json.RawMessage) json.RawMessage {
	if !isInexact(value) {
		return value
	}
	text := json.RawMessage(`"` + exactPrefix + string(value) + `"`)
	e[string(text)] = value
	return text
}

// replaceMembers returns the JSON object with some of its members replaced. It returns other values unchanged.
func (e exactNumbersByText) replaceMembers(object json.RawMessage, members map[string]func(json.RawMessage) json.RawMessage) json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(object, &m) != nil {
		return object
	}
	for name, f := range members {
		if value, ok := m[name]; ok {
			m[name] = f(value)
		}
	}
	out, err := json.Marshal(m)
	if err != nil {
		return object
	}
	return out
}

// restore puts the numbers back into what mcp-go has written: the id of a response, and the token of a progress notification.
func (e exactNumbersByText) restore(written []byte) []byte {
	for text, number := range e {
		for _, member := range []string{`"id":`, `"progressToken":`} {
			written = bytes.Replace(written, []byte(member+text), append([]byte(member), number...), 1)
		}
	}
	return written
}
