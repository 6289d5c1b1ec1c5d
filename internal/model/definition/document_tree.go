package definition

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/cagent/pkg/config"
	"github.com/docker/cagent/pkg/config/latest"
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"fleet/internal/fleet"
)

// toolsetTypes are the types of toolsets that this build has.
var toolsetTypes = []string{"a2a", "api", "fetch", "filesystem", "lsp", "mcp", "memory", "script", "shell", "think", "todo"}

// maxWarnings is the number of warnings after which load removes no more unknown keys, so that the next one is an error.
const maxWarnings = 100

// load reads a definition and returns it with warnings. If the definition was written for a newer version of the library, load
// removes the parts that this version does not know, and adds a warning for each. It never removes a part that restricts
// rights: an unknown key in the permissions is an error.
func load(document []byte) (*latest.Config, []string, error) {
	d := &documentTree{}
	if err := yaml.UnmarshalWithOptions(document, &d.tree, yaml.UseOrderedMap()); err != nil {
		c, err := config.Load(context.Background(), config.NewBytesSource("definition", document))
		return c, nil, err // the library's error is more precise
	}
	d.lowerVersion()
	d.removeUnsupported()
	d.convertParts()
	for len(d.warnings) < maxWarnings {
		text, err := d.text(document)
		if err != nil {
			return nil, nil, err
		}
		path := unknownKey(text)
		if path == nil || slices.Contains(path, any("permissions")) {
			break
		}
		d.remove(path, "is not known to this version of Fleet")
	}
	for _, path := range d.placeholders {
		d.tree, _ = withoutNode(d.tree, path).(yaml.MapSlice)
	}
	text, err := d.text(document)
	if err != nil {
		return nil, nil, err
	}
	c, err := config.Load(context.Background(), config.NewBytesSource("definition", text))
	return c, d.warnings, err
}

// documentTree is a definition as a tree of yaml.MapSlice, []any and plain values.
type documentTree struct {
	tree     yaml.MapSlice
	warnings []string
	changed  bool // the tree differs from the document
	// placeholders are the paths of placeholders that have replaced toolsets. They keep the positions of the other toolsets in warnings
	// right, and are removed at the end.
	placeholders [][]any
}

// text returns the definition as YAML. If nothing was changed, it returns the original document, so that errors show the author's
// lines.
func (d *documentTree) text(document []byte) ([]byte, error) {
	if !d.changed {
		return document, nil
	}
	return yaml.Marshal(d.tree)
}

// remove removes the node at the path, and adds a warning that says why.
func (d *documentTree) remove(path []any, why string) {
	d.tree, _ = withoutNode(d.tree, path).(yaml.MapSlice)
	d.warn(path, why)
}

// warn adds a warning that the part at the path is left out, and records that the tree is changed. The caller changes it.
func (d *documentTree) warn(path []any, why string) {
	d.warnings = append(d.warnings, fmt.Sprintf("%s %s and is left out", fleet.Shorten(pathText(path), 200), why))
	d.changed = true
}

// lowerVersion changes the version of a definition to the newest known version if it is newer.
func (d *documentTree) lowerVersion() {
	for i, item := range d.tree {
		version := fmt.Sprint(item.Value)
		if item.Key != "version" || config.Parsers()[version] != nil {
			continue
		}
		newest, _ := strconv.Atoi(latest.Version)
		if n, err := strconv.Atoi(version); err == nil && n > newest {
			d.tree[i].Value, d.changed = latest.Version, true
			d.warnings = append(d.warnings, fmt.Sprintf("version %d is newer than this server knows: it is read as version %s", n, latest.Version))
		}
	}
}

// removeUnsupported removes the parts that this build does not support: some toolsets, retrieval (rag), and subagents that
// would come from a registry.
func (d *documentTree) removeUnsupported() {
	agents, _ := mapValue(d.tree, "agents").(yaml.MapSlice)
	for _, item := range agents {
		name := fmt.Sprint(item.Key)
		agentPath := []any{"agents", name}
		if mapValue(item.Value, "rag") != nil {
			d.remove(append(slices.Clone(agentPath), "rag"), "is something that agents of Fleet do not have")
		}
		toolsets, _ := mapValue(item.Value, "toolsets").([]any)
		replace := func(i int, why string) {
			toolsets[i] = yaml.MapSlice{{Key: "type", Value: "think"}}
			path := append(slices.Clone(agentPath), "toolsets", i)
			d.placeholders = append(d.placeholders, path)
			d.warn(path, why)
		}
		for i, t := range slices.Backward(toolsets) { // from the end, so that positions do not shift
			kind, _ := mapValue(t, "type").(string)
			ref, _ := mapValue(t, "ref").(string)
			switch {
			case kind != "" && !slices.Contains(toolsetTypes, kind):
				replace(i, fmt.Sprintf("has the type %q, which this build does not have,", fleet.Shorten(kind, 60)))
			case kind == "mcp" && ref != "" && !strings.Contains(ref, "docker:"):
				replace(i, "refers to a definition of an MCP server, which this build cannot follow,")
			}
		}
		others, _ := mapValue(item.Value, "sub_agents").([]any)
		for i, other := range slices.Backward(others) {
			if n, ok := other.(string); ok && strings.Contains(n, "/") && mapValue(agents, n) == nil {
				d.remove(append(slices.Clone(agentPath), "sub_agents", i), fmt.Sprintf("is %q, an agent of a registry, which this build does not fetch,", fleet.Shorten(n, 60)))
			}
		}
	}
}

// convertParts converts parts to the form that this version of the library reads: a path for each memory, and skills as true
// or false. Newer versions read a list of sources of skills instead. This build supports only the local source.
func (d *documentTree) convertParts() {
	agents, _ := mapValue(d.tree, "agents").(yaml.MapSlice)
	for _, item := range agents {
		name := fmt.Sprint(item.Key)
		toolsets, _ := mapValue(item.Value, "toolsets").([]any)
		for i, t := range toolsets {
			if mapValue(t, "type") == "memory" && mapValue(t, "path") == nil {
				toolsets[i] = append(slices.Clone(t.(yaml.MapSlice)), yaml.MapItem{Key: "path", Value: name + "/memory.db"})
				d.changed = true
			}
		}
		sources, ok := mapValue(item.Value, "skills").([]any)
		if !ok {
			continue
		}
		for i, s := range sources {
			if s != "local" {
				d.warn([]any{"agents", name, "skills", i}, fmt.Sprintf("is %q, and not the skills of this machine (local),", fleet.Shorten(fmt.Sprint(s), 60)))
			}
		}
		agent, _ := item.Value.(yaml.MapSlice)
		for i := range agent {
			if agent[i].Key == "skills" {
				agent[i].Value, d.changed = slices.Contains(sources, any("local")), true
			}
		}
	}
}

// mapValue returns the value of the key, or nil if the tree is not a map with the key.
func mapValue(tree any, key string) any {
	m, _ := tree.(yaml.MapSlice)
	for _, item := range m {
		if fmt.Sprint(item.Key) == key {
			return item.Value
		}
	}
	return nil
}

// withoutNode returns the tree without the node at the path. The path consists of keys and positions.
func withoutNode(tree any, path []any) any {
	switch at := path[0].(type) {
	case string:
		m, ok := tree.(yaml.MapSlice)
		if !ok {
			return tree
		}
		var kept yaml.MapSlice
		for _, item := range m {
			switch {
			case fmt.Sprint(item.Key) != at:
			case len(path) == 1:
				continue
			default:
				item.Value = withoutNode(item.Value, path[1:])
			}
			kept = append(kept, item)
		}
		return kept
	case int:
		list, ok := tree.([]any)
		if !ok || at >= len(list) {
			return tree
		}
		if len(path) == 1 {
			return slices.Delete(slices.Clone(list), at, at+1)
		}
		list = slices.Clone(list)
		list[at] = withoutNode(list[at], path[1:])
		return list
	}
	return tree
}

// unknownKey returns the path of a key that the document's version does not know. It returns nil if there is no such
// key, or if the document has another error.
func unknownKey(document []byte) []any {
	var head struct {
		Version string `yaml:"version"`
	}
	if err := yaml.Unmarshal(document, &head); err != nil {
		return nil
	}
	parse := config.Parsers()[cmp.Or(head.Version, latest.Version)]
	if parse == nil {
		return nil
	}
	_, err := parse(document)
	unknown, ok := errors.AsType[*yaml.UnknownFieldError](err)
	if !ok || unknown.Token == nil {
		return nil
	}
	file, err := parser.ParseBytes(document, 0)
	if err != nil || len(file.Docs) == 0 {
		return nil
	}
	return pathTo(file.Docs[0].Body, unknown.Token.Position)
}

// pathTo returns the path of the key below n that is at the position in the document, or nil if there is no such key.
func pathTo(n ast.Node, position *token.Position) []any {
	switch n := n.(type) {
	case *ast.MappingNode:
		for _, v := range n.Values {
			if path := pathTo(v, position); path != nil {
				return path
			}
		}
	case *ast.MappingValueNode:
		key := n.Key.GetToken()
		if key.Position.Line == position.Line && key.Position.Column == position.Column {
			return []any{key.Value}
		}
		if path := pathTo(n.Value, position); path != nil {
			return append([]any{key.Value}, path...)
		}
	case *ast.SequenceNode:
		for i, v := range n.Values {
			if path := pathTo(v, position); path != nil {
				return append([]any{i}, path...)
			}
		}
	}
	return nil
}

// pathText formats a path like agents.root.toolsets[1].type.
func pathText(path []any) string {
	var b strings.Builder
	for _, p := range path {
		switch p := p.(type) {
		case int:
			fmt.Fprintf(&b, "[%d]", p)
		case string:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(p)
		}
	}
	return b.String()
}
