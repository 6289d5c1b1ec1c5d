package tool

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
)

// Set is a named set of tools, usually those of one service.
type Set struct {
	Name  string
	Tools []Tool
}

// Defs are JSON Schemas that other schemas refer to as "#/$defs/NAME".
type Defs map[string]string

// NewSet returns a set. It extends each schema of a tool with the definitions that the schema refers to.
func NewSet(name string, inputs, outputs Defs, tools ...Tool) Set {
	for i := range tools {
		t := &tools[i].Tool
		t.RawInputSchema, t.RawOutputSchema = inputs.withDefs(t.RawInputSchema), outputs.withDefs(t.RawOutputSchema)
		tools[i].BriefInput = inputs.withDefs(tools[i].BriefInput)
	}
	return Set{Name: name, Tools: tools}
}

// reference matches the reference of a schema to a definition.
var reference = regexp.MustCompile(`"#/\$defs/([^"]+)"`)

// withDefs adds the definitions that the schema refers to, and removes spaces.
func (d Defs) withDefs(schema json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	if json.Compact(&b, schema) != nil {
		return schema
	}
	var names []string
	for at := 0; at <= len(names); at++ { // the schema, and then each definition
		in := string(schema)
		if at > 0 {
			in = d[names[at-1]]
		}
		for _, m := range reference.FindAllStringSubmatch(in, -1) {
			if !slices.Contains(names, m[1]) {
				names = append(names, m[1])
			}
		}
	}
	if len(names) == 0 {
		return b.Bytes()
	}
	b.Truncate(b.Len() - 1) // the schema is an object
	for i, name := range names {
		b.WriteString([]string{`,"$defs":{`, ","}[min(i, 1)] + strconv.Quote(name) + ":")
		if json.Compact(&b, []byte(d[name])) != nil {
			return schema
		}
	}
	b.WriteString("}}")
	return b.Bytes()
}
