package subagents

import (
	"reflect"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
)

// toolList is a list of tools as in Claude Code's agent files: a text like "Read, Bash(git log:*)", or a YAML list. The
// texts "" and "*" give a nil list, which means every tool.
type toolList []string

// UnmarshalYAML accepts a string or a list of strings.
func (l *toolList) UnmarshalYAML(node ast.Node) error {
	var list []string
	if err := yaml.NodeToValue(node, &list); err == nil {
		*l = list
		return nil
	}
	var text string
	if err := yaml.NodeToValue(node, &text); err != nil {
		return &yaml.TypeError{DstType: reflect.TypeFor[[]string](), Token: node.GetToken()}
	}
	if text = strings.TrimSpace(text); text != "" && text != "*" {
		*l = splitTools(text)
	}
	return nil
}

// splitTools splits the text at commas outside parentheses.
func splitTools(text string) []string {
	var tools []string
	depth, from := 0, 0
	addTool := func(to int) {
		if tool := strings.TrimSpace(text[from:to]); tool != "" {
			tools = append(tools, tool)
		}
		from = to + 1
	}
	for i, c := range text {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth <= 0:
			addTool(i)
		}
	}
	addTool(len(text))
	return tools
}
