package app

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

var (
	// quotedCommand matches a command of fleet in quotes or backquotes.
	quotedCommand = regexp.MustCompile("[`\"'](fleet [a-z][^`\"']*)[`\"']")
	// toolPlaceholder matches the placeholder for a tool in a next step. Faces replace it with the command or tool that their
	// callers use.
	toolPlaceholder = regexp.MustCompile(`\{(\w+)\}`)
	// toolInSentence matches the name of a tool in a sentence.
	toolInSentence = regexp.MustCompile(`\bsee ([a-z]+_[a-z_]+)`)
)

// TestHints checks that errors, help texts and log messages name only commands, flags and tools that exist.
func TestHints(t *testing.T) {
	t.Parallel()
	commands, tools := map[string]bool{}, 0
	checkHint := func(path, text string, check func(t *testing.T, path string, words []string)) {
		for _, words := range commandsIn(text, "fleet") {
			if key := strings.Join(words, " "); !commands[key] {
				commands[key] = true
				check(t, path, words)
			}
		}
	}
	checkToolHint := func(path, name string) {
		tools++
		if methods[name] == nil {
			t.Errorf("%s: there is no tool %s", path, name)
		}
	}
	for _, path := range files(t, ".go") {
		if strings.HasSuffix(path, "_test.go") || !strings.HasPrefix(path, "internal/") && !strings.HasPrefix(path, "cmd/") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(repository, path), nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Next" && len(n.Args) == 1 {
					for _, m := range toolPlaceholder.FindAllStringSubmatch(textIn(n.Args[0]), -1) {
						checkToolHint(path, m[1])
					}
				}
			case *ast.BasicLit, *ast.BinaryExpr:
				text := textIn(n)
				for _, m := range quotedCommand.FindAllStringSubmatch(text, -1) {
					checkHint(path, m[1], checkCommand)
				}
				for _, m := range toolInSentence.FindAllStringSubmatch(text, -1) {
					checkToolHint(path, m[1])
				}
				return false
			}
			return true
		})
	}
	var checkHelp func(cmd *cobra.Command)
	checkHelp = func(cmd *cobra.Command) {
		checkHint(cmd.CommandPath(), cmd.Example, checkCommandLine)
		for _, m := range quotedCommand.FindAllStringSubmatch(cmd.Long, -1) { // help texts can come from the proto
			checkHint(cmd.CommandPath(), m[1], checkCommand)
		}
		for _, sub := range cmd.Commands() {
			checkHelp(sub)
		}
	}
	checkHelp(commandTree())
	require.Greater(t, len(commands), 100)
	require.Greater(t, tools, 40)
}

// textIn returns all string literals of an expression, joined.
func textIn(n ast.Node) string {
	var text strings.Builder
	ast.Inspect(n, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
			if s, err := strconv.Unquote(l.Value); err == nil {
				text.WriteString(s)
			}
		}
		return true
	})
	return text.String()
}
