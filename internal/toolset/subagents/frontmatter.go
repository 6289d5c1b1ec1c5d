package subagents

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/adrg/frontmatter"
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"fleet/internal/fleet"
)

// header is the frontmatter of a definition's file.
type header struct {
	Name           string         `yaml:"name"`
	Description    string         `yaml:"description"`
	Session        bool           `yaml:"session"`
	AllowedCallers *[]string      `yaml:"allowed_callers"`
	Calls          []string       `yaml:"calls"`
	TimeoutMS      *float64       `yaml:"timeout_ms"`
	Permissions    permissions    `yaml:"permissions"`
	MCPServers     []mcpServer    `yaml:"mcp_servers"`
	Model          string         `yaml:"model"`
	Driver         string         `yaml:"driver"`
	Command        []string       `yaml:"command"`
	PassEnv        []string       `yaml:"pass_env"`
	Container      string         `yaml:"container"`
	Project        string         `yaml:"project"`
	Role           string         `yaml:"role"`
	OutputFormat   string         `yaml:"output_format"`
	OutputSchema   map[string]any `yaml:"output_schema"`

	// These are the names in Claude Code's own agent files.
	Tools           *toolList `yaml:"tools"`
	DisallowedTools *toolList `yaml:"disallowedTools"`
	Color           string    `yaml:"color"` // for screens; not used here
}

// restrictingKeys are the keys that limit what an agent may do, or who may run it. An unknown key that resembles one of them
// is an error: it is probably misspelled, and without the right key the agent could do more than its author wants. Any
// other unknown key is a warning.
var restrictingKeys = []string{"allowed_callers", "permissions", "tools", "disallowedTools"}

// repeatableKeys are the known keys that may be repeated. Claude Code uses the last value.
var repeatableKeys = []string{"name", "description", "model", "color"}

type permissions struct {
	Allow []string `yaml:"allow"`
	Deny  []string `yaml:"deny"`
	Ask   []string `yaml:"ask"`
}

type mcpServer struct {
	Name    string            `yaml:"name"`
	Command string            `yaml:"command"`
	Args    []string          `yaml:"args"`
	Env     map[string]string `yaml:"env"`
	URL     string            `yaml:"url"`
	Headers map[string]string `yaml:"headers"`
}

const (
	maxHeader = 64 << 10  // maximum size of a frontmatter, in bytes
	maxFile   = 256 << 10 // maximum size of a definition's file or a memory.md, in bytes
	maxNested = 32        // maximum nesting depth of lists and mappings
)

// parseFrontmatter returns a file's frontmatter and body, and warnings about ignored keys. Errors and warnings are for the file's
// author. They quote keys but no values, because a value may be a secret.
func parseFrontmatter(data []byte) (h header, body string, warnings []string, err error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	linesBefore := leadingLines(data)
	format := frontmatter.NewFormat("---", "---", func(text []byte, v any) (err error) {
		warnings, err = decode(text, v.(*header), linesBefore)
		return err
	})
	rest, err := frontmatter.MustParse(bytes.NewReader(data), &h, format)
	switch {
	case errors.Is(err, frontmatter.ErrNotFound):
		return h, "", nil, errors.New("it does not begin with a frontmatter: lines of YAML between two lines of ---")
	case err != nil:
		return h, "", nil, err
	}
	return h, strings.TrimSpace(string(rest)), warnings, nil
}

// leadingLines returns how many lines precede the content of the frontmatter.
func leadingLines(data []byte) int {
	before, _, _ := bytes.Cut(data, []byte("---"))
	return bytes.Count(before, []byte("\n")) + 1
}

// decode decodes untrusted YAML into h. If the text is not valid YAML, decode tries again with quotes around the values
// that lack them, because Claude Code reads such files and many agent files have them. linesBefore is the number of lines before
// the text in its file.
func decode(text []byte, h *header, linesBefore int) (warnings []string, err error) {
	if len(text) > maxHeader {
		return nil, fmt.Errorf("its frontmatter has %d bytes, and the limit is %d: put the instructions below it", len(text), maxHeader)
	}
	warnings, err = decodeStrict(text, h, linesBefore)
	if err == nil {
		return warnings, nil
	}
	if quoted := quoteValues(text); !bytes.Equal(quoted, text) {
		var quotedHeader header
		if warnings, quotedErr := decodeStrict(quoted, &quotedHeader, linesBefore); quotedErr == nil {
			*h = quotedHeader
			return warnings, nil
		}
	}
	return nil, err
}

var (
	// keyLinePattern matches a key at the left margin with a value.
	keyLinePattern = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9_-]*):[ \t]+(\S.*)$`)
	// blockHeaderPattern matches the value of a key whose text is on the lines below.
	blockHeaderPattern = regexp.MustCompile(`^[|>][-+0-9]*([ \t]+#.*)?$`)
)

// needsNoQuotes reports whether the value of a key can stay as it is: a text in quotes, a list or mapping in brackets, or an
// anchor, which is refused.
func needsNoQuotes(value string) bool {
	switch first := value[0]; first {
	case '&':
		return true
	case '"', '\'':
		return len(value) > 1 && value[len(value)-1] == first
	case '[', '{':
		_, err := parser.ParseBytes([]byte(value), 0)
		return err == nil
	}
	return false
}

// quoteValues puts quotes around the values of top-level keys that lack them, including values that continue on indented lines.
func quoteValues(text []byte) []byte {
	var out []string
	lines := strings.Split(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		m := keyLinePattern.FindStringSubmatch(lines[i])
		if m == nil || m[1] == "name" || blockHeaderPattern.MatchString(m[2]) { // a name needs no quotes
			out = append(out, lines[i])
			continue
		}
		value, first := m[2], i
		for i+1 < len(lines) && strings.HasPrefix(lines[i+1], " ") {
			i++
			value += " " + strings.TrimSpace(lines[i])
		}
		if value = strings.TrimSpace(value); needsNoQuotes(value) {
			out = append(out, lines[first:i+1]...)
			continue
		}
		out = append(out, m[1]+": '"+strings.ReplaceAll(value, "'", "''")+"'")
		out = append(out, make([]string, i-first)...) // so that later errors name the right line
	}
	return []byte(strings.Join(out, "\n"))
}

// lineOf names the line of a token in the file. linesBefore is the number of lines before the YAML text.
func lineOf(t *token.Token, linesBefore int) string {
	if t == nil || t.Position == nil {
		return "in its frontmatter"
	}
	return fmt.Sprintf("line %d", t.Position.Line+linesBefore)
}

// decodeStrict decodes YAML into h. It leaves out unknown top-level keys, and returns warnings about them. Unknown keys below
// them are errors.
func decodeStrict(text []byte, h *header, linesBefore int) (warnings []string, err error) {
	if err := checkNesting(text, linesBefore); err != nil {
		return nil, err
	}
	file, err := parser.ParseBytes(text, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, yamlError(err, linesBefore)
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return nil, nil
	}
	node := file.Docs[0].Body
	if m, ok := node.(*ast.MappingNode); ok {
		if warnings, err = removeUnknownKeys(m, linesBefore); err != nil {
			return nil, err
		}
	}
	if err := yaml.NodeToValue(node, h, yaml.Strict()); err != nil {
		return nil, yamlError(err, linesBefore)
	}
	return warnings, nil
}

// checkNesting refuses text that nests lists and mappings too deep, in brackets or on one line. It also refuses anchors and
// aliases, since a few of them can expand to more than fits into memory.
func checkNesting(text []byte, linesBefore int) error {
	depth, line, entriesInLine := 0, 0, 0
	for _, t := range lexer.Tokenize(string(text)) {
		if t.Position != nil && t.Position.Line != line {
			line, entriesInLine = t.Position.Line, 0
		}
		switch t.Type {
		case token.AnchorType, token.AliasType, token.MergeKeyType:
			return fmt.Errorf("%s: anchors and aliases are not accepted: repeat the value instead", lineOf(t, linesBefore))
		case token.MappingStartType, token.SequenceStartType:
			depth++
		case token.MappingEndType, token.SequenceEndType:
			depth--
		case token.SequenceEntryType, token.MappingKeyType:
			entriesInLine++
		}
		if depth > maxNested || entriesInLine > maxNested {
			return fmt.Errorf("%s: lists and mappings are nested too deep", lineOf(t, linesBefore))
		}
	}
	return nil
}

// yamlError rewrites an error of the YAML package for the author of the file.
func yamlError(err error, linesBefore int) error {
	if unknown, ok := errors.AsType[*yaml.UnknownFieldError](err); ok && unknown.Token != nil {
		key := unknown.Token.Value
		return fmt.Errorf("%s: there is no key %q%s", lineOf(unknown.Token, linesBefore), fleet.Shorten(key, 40), suggestKeyOrListAll(key))
	}
	if typeErr, ok := errors.AsType[*yaml.TypeError](err); ok {
		return fmt.Errorf("%s: %s is needed here", lineOf(typeErr.Token, linesBefore), describeType(typeErr.DstType))
	}
	var y yaml.Error
	if errors.As(err, &y) {
		return fmt.Errorf("%s: %s", lineOf(y.GetToken(), linesBefore), y.GetMessage())
	}
	return errors.New("its frontmatter is not valid YAML")
}

// removeUnknownKeys removes the unknown keys of a frontmatter, and all but the last value of a key that may be repeated. It
// returns warnings about them. It returns an error for another repeated key, and for an unknown key that resembles one of
// restrictingKeys.
func removeUnknownKeys(m *ast.MappingNode, linesBefore int) (warnings []string, err error) {
	known := keysOf(reflect.TypeFor[header]())
	last := map[string]int{}
	for i, v := range m.Values {
		last[v.Key.GetToken().Value] = i
	}
	var keptValues []*ast.MappingValueNode
	for i, v := range m.Values {
		key := v.Key.GetToken()
		name := key.Value
		switch isKnown := slices.Contains(known, name); {
		case isKnown && i == last[name]:
			if duplicate := repeatedKey(v.Value); duplicate != nil {
				return nil, fmt.Errorf("%s: the key %q is repeated: keep one of them", lineOf(duplicate, linesBefore), fleet.Shorten(duplicate.Value, 40))
			}
			keptValues = append(keptValues, v)
			continue
		case isKnown && !slices.Contains(repeatableKeys, name):
			return nil, fmt.Errorf("%s: the key %q is repeated: keep one of them", lineOf(key, linesBefore), name)
		case isKnown:
			warnings = append(warnings, fmt.Sprintf("%s: the key %q is repeated: its last value is used", lineOf(key, linesBefore), name))
			continue
		case i != last[name]:
			continue // one warning is enough
		}
		if suggestion := nearest(name, restrictingKeys, max(1, len(name)/4)); suggestion != "" {
			return nil, fmt.Errorf("%s: there is no key %q: did you mean %q?", lineOf(key, linesBefore), fleet.Shorten(name, 40), suggestion)
		}
		warnings = append(warnings, fmt.Sprintf("%s: the key %q is unknown and is ignored%s", lineOf(key, linesBefore), fleet.Shorten(name, 40), suggestKey(name, known)))
	}
	m.Values = keptValues
	return warnings, nil
}

// repeatedKey returns a key that is repeated in a mapping below the node; nil if there is none.
func repeatedKey(n ast.Node) (duplicate *token.Token) {
	switch n := n.(type) {
	case *ast.MappingNode:
		seen := map[string]bool{}
		for _, v := range n.Values {
			key := v.Key.GetToken()
			if seen[key.Value] {
				return key
			}
			seen[key.Value] = true
			if duplicate = repeatedKey(v.Value); duplicate != nil {
				return duplicate
			}
		}
	case *ast.SequenceNode:
		for _, v := range n.Values {
			if duplicate = repeatedKey(v); duplicate != nil {
				return duplicate
			}
		}
	}
	return nil
}

// describeType describes, for people, which values the type accepts.
func describeType(t reflect.Type) string {
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
