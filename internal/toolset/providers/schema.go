package providers

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// noArguments is the schema of a tool without arguments.
const noArguments = `{"type":"object","properties":{}}`

// nowhere is a schema loader that refuses every reference. Otherwise a schema that refers to another document could
// make the server read a file or call a host.
type nowhere struct{}

func (nowhere) Load(string) (any, error) {
	return nil, errors.New("it refers to another document: put that document under $defs")
}

// checkParameters checks that a tool's parameters are a valid JSON Schema of an object, and returns the schema as
// compact JSON. Without parameters, it returns a schema without properties.
func checkParameters(raw json.RawMessage) (json.RawMessage, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return json.RawMessage(noArguments), nil
	}
	var top struct {
		Type any `json:"type"`
	}
	if err := json.Unmarshal(raw, &top); err != nil || top.Type != "object" {
		return nil, malformed("parameters", "is not a JSON Schema of an object: begin it with {\"type\": \"object\", \"properties\": ...}")
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, malformed("parameters", "is not JSON: %s", oneLine(err.Error()))
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(nowhere{})
	const url = "fleet:///parameters"
	if err := c.AddResource(url, doc); err != nil {
		return nil, malformed("parameters", "is not a JSON Schema: %s", oneLine(err.Error()))
	}
	if _, err := c.Compile(url); err != nil {
		return nil, malformed("parameters", "is not a JSON Schema: %s", schemaWords(err))
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return nil, malformed("parameters", "is not JSON: %s", oneLine(err.Error()))
	}
	return b.Bytes(), nil
}

// schemaWords returns the last line of a schema's validation error. This line names the deepest cause and where it is.
func schemaWords(err error) string {
	words := ""
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimSpace(line); line != "" {
			words = line
		}
	}
	return oneLine(strings.TrimPrefix(words, "- "))
}
