package cli

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/reflect/protoreflect"

	"fleet/internal/face/wire"
)

// toYAML converts JSON to YAML with the same tree and the keys in the same order. goccy's JSONToYAML would lose data: the text
// "1e3" becomes a number, and "? a" cannot be read back. yaml.v3 cannot read all JSON.
func toYAML(data []byte) (string, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	n, err := readNode(dec)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(n); err != nil {
		return "", err
	}
	return b.String(), enc.Close()
}

// yamlOf formats a message as YAML. It returns "" if that is not possible.
func yamlOf(m protoreflect.Message) string {
	data, err := wire.Marshal(m.Interface())
	if err != nil {
		return ""
	}
	text, err := toYAML(data)
	if err != nil {
		return ""
	}
	return text
}

// readNode reads the next JSON value.
func readNode(dec *json.Decoder) (*yaml.Node, error) {
	t, err := dec.Token()
	if err != nil {
		return nil, err
	}
	n := &yaml.Node{Kind: yaml.ScalarNode}
	switch t := t.(type) {
	case json.Delim:
		n.Kind, n.Style = yaml.MappingNode, yaml.FlowStyle // an empty one is written as {} or []
		if t == '[' {
			n.Kind = yaml.SequenceNode
		}
		for dec.More() { // keys and values of a mapping alternate
			child, err := readNode(dec)
			if err != nil {
				return nil, err
			}
			n.Content, n.Style = append(n.Content, child), 0
		}
		_, err = dec.Token()
	case json.Number:
		n.Value = t.String()
	case string:
		switch n.Tag, n.Value = "!!str", t; {
		case strings.Contains(t, "\n"):
			n.Style = textStyle(t)
		case plainScalar.MatchString(t):
			err = n.Encode(t) // in quotes if it reads like a number or a boolean
		default:
			n.Style = yaml.DoubleQuotedStyle
		}
	default:
		err = n.Encode(t)
	}
	return n, err
}

// plainScalar matches texts that need no quotes in YAML, unless they look like a number or a boolean.
var plainScalar = regexp.MustCompile(`^[A-Za-z0-9/_.]([A-Za-z0-9/_., ()+@'-]*[A-Za-z0-9/_.,()+@'-])?$`)

// textStyle returns the style of a text of several lines: a literal block, unless YAML readers disagree about its spaces.
func textStyle(text string) yaml.Style {
	for i, line := range strings.Split(text, "\n") {
		if strings.HasSuffix(line, " ") || i == 0 && (line == "" || line[0] == ' ') || strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
			return yaml.DoubleQuotedStyle
		}
	}
	return yaml.LiteralStyle
}
