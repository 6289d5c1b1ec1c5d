package cli

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// toYAML converts JSON to YAML: the same tree, with the keys in the same order. Libraries that do this lose data:
// goccy/go-yaml writes the text "1e3" without quotes and control characters raw, and yaml.v3 cannot read all JSON.
func toYAML(compact []byte) (string, error) {
	dec := json.NewDecoder(bytes.NewReader(compact))
	dec.UseNumber()
	n, err := node(dec)
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

// node reads the next JSON value.
func node(dec *json.Decoder) (*yaml.Node, error) {
	t, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case json.Delim:
		n := &yaml.Node{Kind: yaml.MappingNode}
		if t == '[' {
			n.Kind = yaml.SequenceNode
		}
		for dec.More() { // keys and values of a mapping alternate
			child, err := node(dec)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, child)
		}
		if len(n.Content) == 0 {
			n.Style = yaml.FlowStyle
		}
		_, err := dec.Token()
		return n, err
	case string:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: t, Style: style(t)}, nil
	case json.Number:
		return scalar(t.String()), nil
	case bool:
		if t {
			return scalar("true"), nil
		}
		return scalar("false"), nil
	}
	return scalar("null"), nil
}

func scalar(value string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: value} }

// word matches texts that need no quotes, unless they are a keyword of the encoder.
var word = regexp.MustCompile(`^[A-Za-z0-9/_.][A-Za-z0-9/_., ()+@'-]*$`)

// other matches words that some YAML version reads as a boolean, null or a number.
var other = regexp.MustCompile(`^(?i:y|n|yes|no|on|off|true|false|null|~|[-+.]?[0-9][-+0-9_.a-fox]*|[-+]?\.(inf|nan))$`)

// style chooses the style of a text: plain, a literal block, or double quotes wherever YAML readers disagree.
func style(s string) yaml.Style {
	if word.MatchString(s) && strings.TrimSpace(s) == s && !other.MatchString(s) {
		return 0
	}
	if !strings.Contains(s, "\n") || strings.HasPrefix(s, " ") || strings.HasPrefix(s, "\n") || strings.TrimSpace(s) == "" {
		return yaml.DoubleQuotedStyle
	}
	for line := range strings.SplitSeq(s, "\n") {
		if strings.HasSuffix(line, " ") || strings.ContainsFunc(line, unprintable) {
			return yaml.DoubleQuotedStyle
		}
	}
	return yaml.LiteralStyle
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }
