// Package schema compiles JSON Schemas that callers and authors write, and checks values with them. It accepts regular
// expressions of ECMAScript, as JSON Schema requires.
//
// Toolsets and the tools of model agents call this package. It must never read a file or call a host: a schema that refers to another
// document is refused.
package schema

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/dlclark/regexp2"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"fleet/internal/fleet"
)

// maxProblems is the maximum number of problems of a value or of a schema that are reported.
const maxProblems = 10

// matchTimeout limits the time to match one text with an expression that Go's package regexp does not support. Such an
// expression can take exponential time.
const matchTimeout = 100 * time.Millisecond

// Schema is a compiled schema. It is safe for concurrent use.
type Schema struct{ compiled *jsonschema.Schema }

// noReferences is a loader that refuses every reference to another document.
type noReferences struct{}

func (noReferences) Load(string) (any, error) {
	return nil, errors.New("it refers to another document: put that document under $defs")
}

// Compile returns the compiled schema. Its errors describe mistakes in the schema, for the schema's author.
func Compile(text []byte) (*Schema, error) {
	doc, err := parse(text)
	if err != nil {
		return nil, err
	}
	const schemaURL = "fleet:schema"
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noReferences{})
	c.UseRegexpEngine(compilePattern)
	if err := c.AddResource(schemaURL, doc); err != nil {
		return nil, err
	}
	s, err := c.Compile(schemaURL)
	if invalid, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		return nil, errors.New(strings.Join(problemsOf(invalid.Err), "; "))
	}
	if err != nil {
		return nil, err
	}
	return &Schema{s}, nil
}

// CompileChecker implements fleet.SchemaCompiler.
func CompileChecker(text []byte) (check func(value []byte) []string, err error) {
	s, err := Compile(text)
	if err != nil {
		return nil, err
	}
	return s.Check, nil
}

// Check returns the ways in which the JSON value violates the schema; nil if it does not. A value that is not JSON violates every
// schema.
func (s *Schema) Check(value []byte) []string {
	v, err := parse(value)
	if err != nil {
		return []string{err.Error()}
	}
	return problemsOf(s.compiled.Validate(v))
}

// These limit the numbers in a schema or a value. The validator computes with exact numbers: those with a large exponent take long, and
// it panics on those that math/big refuses.
const (
	maxNumberLength = 1000
	maxExponent     = 400 // the exponents of float64 are smaller
)

// parse parses JSON. It refuses numbers with which the validator or float64 cannot compute.
func parse(text []byte) (any, error) {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("it is not JSON: %w", err)
	}
	return v, checkNumbers(v)
}

// checkNumbers returns an error if a number in the JSON value v exceeds a limit.
func checkNumbers(v any) error {
	switch v := v.(type) {
	case json.Number:
		_, err := v.Float64()
		_, exponent, _ := strings.Cut(strings.ToLower(v.String()), "e")
		n, exponentErr := strconv.Atoi(cmp.Or(exponent, "0"))
		if err != nil || exponentErr != nil || max(n, -n) > maxExponent || len(v) > maxNumberLength {
			return fmt.Errorf("the number %s is too large, too small or too long", fleet.Shorten(v.String(), 40))
		}
	case []any:
		for _, item := range v {
			if err := checkNumbers(item); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, item := range v {
			if err := checkNumbers(item); err != nil {
				return err
			}
		}
	}
	return nil
}

// compilePattern compiles a regular expression of ECMAScript. It prefers Go's package regexp, which understands most expressions in the
// same way and matches them in linear time.
func compilePattern(text string) (jsonschema.Regexp, error) {
	if r, err := regexp.Compile(text); err == nil {
		return r, nil
	}
	r, err := regexp2.Compile(text, regexp2.ECMAScript|regexp2.Unicode)
	if err != nil {
		return nil, err
	}
	r.MatchTimeout = matchTimeout
	return pattern{r}, nil
}

// pattern is an expression with features that Go's package regexp does not support, such as lookahead.
type pattern struct{ *regexp2.Regexp }

// MatchString reports whether the text matches. A text that takes too long does not match.
func (p pattern) MatchString(text string) bool {
	ok, err := p.Regexp.MatchString(text)
	return ok && err == nil
}

var printer = message.NewPrinter(language.English)

// problemsOf returns the problems in a schema's validation error: at most maxProblems, and then the number of further
// problems. It returns nil if err is nil.
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
			problems = append(problems, fmt.Sprintf("at /%s: %s", strings.Join(e.InstanceLocation, "/"), fleet.Shorten(e.ErrorKind.LocalizedString(printer), 200)))
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
