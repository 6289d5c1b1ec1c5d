package definition

import (
	"bytes"
	"fmt"
	"regexp"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

const (
	maxDepth    = 200     // limit for nested brackets, and for nested lists in one line
	maxExpanded = 4 << 20 // total size of expanded aliases, in bytes
)

// deepListPattern matches a line with too many nested lists.
var deepListPattern = regexp.MustCompile(fmt.Sprintf(`(?m)^\s*([-?]\s+){%d}`, maxDepth))

// checkParseCost refuses documents that are expensive to parse, because the parser follows nesting and aliases without a limit. It also
// refuses empty documents and those with NUL bytes.
func checkParseCost(document []byte) error {
	switch {
	case len(document) > MaxDocument:
		return fmt.Errorf("it is larger than the limit of %d bytes", MaxDocument)
	case len(bytes.TrimSpace(document)) == 0:
		return fmt.Errorf("it is empty")
	case bytes.IndexByte(document, 0) >= 0:
		return fmt.Errorf("it is not text: it has NUL bytes")
	case deepListPattern.Match(document):
		return fmt.Errorf("its lists are nested too deeply")
	}
	depth := 0
	for _, c := range document {
		switch c {
		case '[', '{':
			depth++
		case ']', '}':
			depth = max(0, depth-1)
		}
		if depth > maxDepth {
			return fmt.Errorf("its brackets are nested too deeply")
		}
	}
	if !bytes.ContainsRune(document, '&') {
		return nil // without anchors there are no aliases
	}
	file, err := parser.ParseBytes(document, 0)
	if err != nil {
		return fmt.Errorf("it is not YAML: %s", plainText(err.Error()))
	}
	w := &aliasSizes{sizes: map[string]int{}}
	for _, d := range file.Docs {
		if d.Body != nil {
			ast.Walk(w, d.Body)
		}
	}
	return w.err
}

// aliasSizes computes the size of expanded aliases. An alias inside an anchored node is refused: nested aliases make a
// small document huge, and definitions do not need them.
type aliasSizes struct {
	sizes map[string]int // bytes of each anchored node, by anchor
	total int
	err   error
}

// Visit implements ast.Visitor.
func (a *aliasSizes) Visit(n ast.Node) ast.Visitor {
	switch n := n.(type) {
	case *ast.AnchorNode:
		inner := &aliasFinder{}
		ast.Walk(inner, n.Value)
		if inner.found {
			a.err = fmt.Errorf("it has an alias inside an anchored node: repeat the text instead")
		}
		a.sizes[n.Name.String()] = len(n.Value.String())
	case *ast.AliasNode:
		if a.total += a.sizes[n.Value.String()]; a.total > maxExpanded {
			a.err = fmt.Errorf("its aliases expand to more than %d bytes", maxExpanded)
		}
	}
	if a.err != nil {
		return nil
	}
	return a
}

// aliasFinder finds out whether a node contains an alias.
type aliasFinder struct{ found bool }

// Visit implements ast.Visitor.
func (a *aliasFinder) Visit(n ast.Node) ast.Visitor {
	if _, ok := n.(*ast.AliasNode); ok {
		a.found = true
	}
	return a
}
