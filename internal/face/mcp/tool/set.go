package tool

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// Set is a named set of tools, usually those of one service.
type Set struct {
	Name  string
	Tools []Tool
}

// Defs are JSON Schemas that other schemas refer to as "#/$defs/NAME".
type Defs map[string]string

// NewSet returns a set of the tools. It changes the tools: it adds to each schema the definitions that the schema refers to. inputs has
// the definitions for the schemas of arguments, outputs those for the schemas of results.
func NewSet(name string, inputs, outputs Defs, tools ...Tool) Set {
	for i := range tools {
		t := &tools[i].Tool
		t.RawInputSchema, t.RawOutputSchema = inputs.withDefs(t.RawInputSchema), outputs.withDefs(t.RawOutputSchema)
		tools[i].BriefInput = inputs.withDefs(tools[i].BriefInput)
	}
	return Set{Name: name, Tools: tools}
}

// withDefs adds the definitions that the schema refers to, and removes the line breaks of the generated code.
func (d Defs) withDefs(schema json.RawMessage) json.RawMessage {
	if schema == nil {
		return nil
	}
	parts := []string{string(schema)} // the schema, and then each definition
	var names []string
	for at := 0; at < len(parts); at++ {
		for _, after := range strings.Split(parts[at], `"#/$defs/`)[1:] {
			name, _, _ := strings.Cut(after, `"`)
			if !slices.Contains(names, name) {
				names, parts = append(names, name), append(parts, d[name])
			}
		}
	}
	text := parts[0]
	if len(names) > 0 {
		var b strings.Builder
		b.WriteString(strings.TrimSuffix(text, "}"))
		for i, name := range names {
			b.WriteString([]string{`,"$defs":{`, ","}[min(i, 1)] + strconv.Quote(name) + ":" + parts[i+1])
		}
		text = b.String() + "}}"
	}
	return json.RawMessage(strings.ReplaceAll(text, "\n", ""))
}
