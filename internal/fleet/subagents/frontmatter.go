package subagents

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/adrg/frontmatter"
	"github.com/agext/levenshtein"
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/token"
)

// header is the frontmatter of an agent.md.
type header struct {
	Name           string         `yaml:"name"`
	Description    string         `yaml:"description"`
	Session        bool           `yaml:"session"`
	AllowedCallers *[]string      `yaml:"allowed_callers"`
	Calls          []string       `yaml:"calls"`
	TimeoutMS      *float64       `yaml:"timeout_ms"`
	Permissions    permissions    `yaml:"permissions"`
	MCPServers     []server       `yaml:"mcp_servers"`
	Model          string         `yaml:"model"`
	Driver         string         `yaml:"driver"`
	Command        []string       `yaml:"command"`
	PassEnv        []string       `yaml:"pass_env"`
	Container      string         `yaml:"container"`
	Project        string         `yaml:"project"`
	Role           string         `yaml:"role"`
	OutputFormat   string         `yaml:"output_format"`
	OutputSchema   map[string]any `yaml:"output_schema"`
}

type permissions struct {
	Allow []string `yaml:"allow"`
	Deny  []string `yaml:"deny"`
}

type server struct {
	Name    string            `yaml:"name"`
	Command string            `yaml:"command"`
	Args    []string          `yaml:"args"`
	Env     map[string]string `yaml:"env"`
	URL     string            `yaml:"url"`
	Headers map[string]string `yaml:"headers"`
}

const (
	maxHeader = 64 << 10  // bytes of a frontmatter
	maxFile   = 256 << 10 // bytes of an agent.md, or of a memory.md
	maxNested = 32        // how deep lists and mappings are in one another
)

// split returns the frontmatter of a file and its body. Errors are words for whoever wrote the file, and quote nothing
// of it but keys: a value may be a secret that should not be there.
func split(data []byte) (header, string, error) {
	var h header
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	lines := leadingLines(data)
	format := frontmatter.NewFormat("---", "---", func(text []byte, v any) error { return decode(text, v, lines) })
	body, err := frontmatter.MustParse(bytes.NewReader(data), &h, format)
	switch {
	case errors.Is(err, frontmatter.ErrNotFound):
		return h, "", errors.New("it does not begin with a frontmatter: lines of YAML between two lines of ---")
	case err != nil:
		return h, "", err
	}
	return h, strings.TrimSpace(string(body)), nil
}

// leadingLines is how many lines come before the frontmatter's own.
func leadingLines(data []byte) int {
	before, _, _ := bytes.Cut(data, []byte("---"))
	return bytes.Count(before, []byte("\n")) + 1
}

// decode decodes YAML that is not to be trusted. Aliases are refused, since a few of them can mean more than fits into
// any memory, and so is what is nested deeper than anything that makes sense.
func decode(text []byte, v any, lines int) error {
	if len(text) > maxHeader {
		return fmt.Errorf("its frontmatter has %d bytes, and at most %d are taken: put the instructions below it", len(text), maxHeader)
	}
	at := func(t *token.Token) string {
		if t == nil || t.Position == nil {
			return "in its frontmatter"
		}
		return fmt.Sprintf("line %d", t.Position.Line+lines)
	}
	depth, line, inLine := 0, 0, 0
	for _, t := range lexer.Tokenize(string(text)) {
		if t.Position != nil && t.Position.Line != line {
			line, inLine = t.Position.Line, 0
		}
		switch t.Type {
		case token.AnchorType, token.AliasType, token.MergeKeyType:
			return fmt.Errorf("%s: anchors and aliases are not taken: write it out", at(t))
		case token.MappingStartType, token.SequenceStartType:
			depth++
		case token.MappingEndType, token.SequenceEndType:
			depth--
		case token.SequenceEntryType, token.MappingKeyType:
			inLine++
		}
		if depth > maxNested || inLine > maxNested {
			return fmt.Errorf("%s: this is nested too deep", at(t))
		}
	}
	err := yaml.UnmarshalWithOptions(text, v, yaml.Strict())
	if err == nil {
		return nil
	}
	if unknown, ok := errors.AsType[*yaml.UnknownFieldError](err); ok && unknown.Token != nil {
		key := unknown.Token.Value
		return fmt.Errorf("%s: there is no key %q%s", at(unknown.Token), shorten(key, 40), didYouMean(key))
	}
	if wrong, ok := errors.AsType[*yaml.TypeError](err); ok {
		return fmt.Errorf("%s: %s is needed here", at(wrong.Token), kindWords(wrong.DstType))
	}
	var y yaml.Error
	if errors.As(err, &y) {
		return fmt.Errorf("%s: %s", at(y.GetToken()), y.GetMessage())
	}
	return errors.New("its frontmatter is not good YAML")
}

// kindWords says what a value of the type is, to people.
func kindWords(t reflect.Type) string {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == nil:
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Float64:
		return "a number"
	case t.Kind() == reflect.Slice:
		return "a list"
	case t.Kind() == reflect.Map || t.Kind() == reflect.Struct:
		return "a mapping of keys to values"
	}
	return "a text"
}

// didYouMean says which key was meant, or which there are.
func didYouMean(key string) string {
	known := keysOf(reflect.TypeFor[header](), reflect.TypeFor[permissions](), reflect.TypeFor[server]())
	best, distance := "", max(2, len(key)/3)+1
	if len(key) <= 64 {
		for _, k := range known {
			if d := levenshtein.Distance(strings.ToLower(key), k, nil); d < distance {
				best, distance = k, d
			}
		}
	}
	if best != "" {
		return fmt.Sprintf(": did you mean %q?", best)
	}
	return ": the keys are " + strings.Join(known, ", ")
}

// keysOf returns the keys of the types, sorted.
func keysOf(types ...reflect.Type) []string {
	var keys []string
	for _, t := range types {
		for f := range t.Fields() {
			keys = append(keys, f.Tag.Get("yaml"))
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// shorten returns the first n characters of s, with an ellipsis where there were more.
func shorten(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}
