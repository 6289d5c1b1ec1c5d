package subagents

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"fleet/internal/fleet"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// nothing is a schema loader that refuses every reference. Otherwise a schema could refer to a file or an address, and
// make the server read it.
type nothing struct{}

func (nothing) Load(string) (any, error) {
	return nil, errors.New("it refers to another document: put that schema under $defs")
}

// compile returns the compiled schema.
func compile(schema []byte) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil, err
	}
	const here = "fleet:output_schema"
	c := jsonschema.NewCompiler()
	c.UseLoader(nothing{})
	if err := c.AddResource(here, doc); err != nil {
		return nil, err
	}
	s, err := c.Compile(here)
	if invalid, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		return nil, errors.New(strings.Join(problemsOf(invalid.Err), "; "))
	}
	return s, err
}

// maxProblems is the largest number of problems of an answer that are reported.
const maxProblems = 10

// check returns the JSON value in a subagent's answer, and how the value violates the definition's schema. problems is
// empty if the answer is valid.
func (d *Definition) check(answer string) (value string, problems []string) {
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
	if d.schema == nil {
		return value, nil
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return value, []string{"it is not JSON: " + err.Error()}
	}
	return value, problemsOf(d.schema.Validate(v))
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
	if first, rest, more := strings.Cut(inner, "\n"); more && !strings.ContainsAny(first, "{[\"") {
		inner = rest
	}
	return strings.TrimSpace(inner)
}

var english = message.NewPrinter(language.English)

// problemsOf returns the problems in a schema's validation error, at most maxProblems and then how many more there are.
// It returns nil if err is nil.
func problemsOf(err error) []string {
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	switch {
	case err == nil:
		return nil
	case !ok:
		return []string{err.Error()}
	}
	var problems []string
	var walk func(e *jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		if len(e.Causes) == 0 {
			problems = append(problems, fmt.Sprintf("at /%s: %s", strings.Join(e.InstanceLocation, "/"), fleet.Shorten(e.ErrorKind.LocalizedString(english), 200)))
		}
		for _, c := range e.Causes {
			walk(c)
		}
	}
	walk(invalid)
	if len(problems) > maxProblems {
		problems = append(problems[:maxProblems], fmt.Sprintf("and %d more", len(problems)-maxProblems))
	}
	return problems
}
