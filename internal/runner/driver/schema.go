package driver

import (
	"encoding/json"
	"strings"

	"fleet/internal/fleet"
)

// SchemaPrompt returns the instructions about an output schema, for a program that has no option for the schema.
func SchemaPrompt(schema json.RawMessage) string {
	if len(schema) == 0 {
		return ""
	}
	return "End your work with a message that is one JSON object and nothing else. A program reads it, and refuses it unless it matches this JSON Schema:\n\n" + string(schema)
}

// maxObjectTries is the number of positions at which FindObject tries to parse an object.
const maxObjectTries = 100

// FindObject returns the JSON object in the text of a message, or nil if there is none. Models often explain an object, or put it in a
// code block. So if the whole text is not an object, FindObject looks for an object that ends with the last line that ends with "}".
// This object must begin at the start of a line, except for space, and may be at most fleet.MaxTaskOutput bytes long.
func FindObject(text string) json.RawMessage {
	text = strings.TrimSpace(text)
	if isObject(text) {
		return json.RawMessage(text)
	}
	text = text[:strings.LastIndex(text+"\n", "}\n")+1]
	text = text[max(0, len(text)-fleet.MaxTaskOutput):]
	for begin, tries := len(text), 0; tries < maxObjectTries; {
		if begin = strings.LastIndexByte(text[:begin], '{'); begin < 0 {
			return nil
		}
		if line := text[strings.LastIndexByte(text[:begin], '\n')+1 : begin]; strings.TrimSpace(line) == "" {
			tries++
			if isObject(text[begin:]) {
				return json.RawMessage(text[begin:])
			}
		}
	}
	return nil
}

func isObject(text string) bool { return strings.HasPrefix(text, "{") && json.Valid([]byte(text)) }
