package subagents

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
)

// checkAnswer returns the JSON value in a subagent's answer. problems says why the answer is not one JSON value, or how the
// value violates the definition's schema. It is empty if the answer is valid.
func (d *Definition) checkAnswer(answer string) (value string, problems []string) {
	value = unfence(answer)
	decoder := json.NewDecoder(strings.NewReader(value))
	var raw json.RawMessage
	if err := decoder.Decode(&raw); err != nil {
		return value, []string{"it is not JSON: " + err.Error()}
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return value, []string{"it contains more than one JSON value"}
	}
	value = string(raw)
	if d.compiledSchema == nil {
		return value, nil
	}
	return value, d.compiledSchema.Check(raw)
}

// unfence returns the content of the code block if the whole answer is one code block, otherwise the answer itself.
func unfence(answer string) string {
	s := strings.TrimSpace(answer)
	inner, ok := strings.CutPrefix(s, "```")
	if !ok {
		return s
	}
	inner, ok = strings.CutSuffix(inner, "```")
	if !ok {
		return s
	}
	if first, rest, found := strings.Cut(inner, "\n"); found && !strings.ContainsAny(first, "{[\"") {
		inner = rest
	}
	return strings.TrimSpace(inner)
}
