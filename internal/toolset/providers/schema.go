package providers

import (
	"bytes"
	"encoding/json"

	"fleet/internal/schema"
)

// noArguments is the schema of a tool without arguments.
const noArguments = `{"type":"object","properties":{}}`

// checkParameters checks that a tool's parameters are a valid JSON Schema of an object, and returns the schema as
// compact JSON. If raw is empty or null, it returns noArguments.
func checkParameters(raw json.RawMessage) (json.RawMessage, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return json.RawMessage(noArguments), nil
	}
	var top struct {
		Type any `json:"type"`
	}
	if err := json.Unmarshal(raw, &top); err != nil || top.Type != "object" {
		return nil, invalidSpec("parameters", "is not a JSON Schema of an object: begin it with {\"type\": \"object\", \"properties\": ...}")
	}
	if _, err := schema.Compile(raw); err != nil {
		return nil, invalidSpec("parameters", "is not a JSON Schema: %s", oneLine(err.Error()))
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return nil, invalidSpec("parameters", "is not JSON: %s", oneLine(err.Error()))
	}
	return b.Bytes(), nil
}
