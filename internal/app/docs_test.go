package app

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"

	"fleet/internal/face/cli"
)

// repository is the path of the repository from this package.
const repository = "../.."

// document has the parts of a Markdown file that the tests check.
type document struct {
	path    string // relative to the repository
	source  string
	links   []string
	anchors []string
	spans   []string // `code` in a sentence or a table
	blocks  []string // code blocks
}

// documents returns the Markdown files of the repository.
func documents(t *testing.T) (all []document) {
	t.Helper()
	parser := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser()
	for _, path := range files(t, ".md") {
		source := []byte(readRepository(t, path))
		d := document{path: path, source: string(source)}
		err := ast.Walk(parser.Parse(text.NewReader(source)), func(n ast.Node, entering bool) (ast.WalkStatus, error) {
			if !entering {
				return ast.WalkContinue, nil
			}
			switch n := n.(type) {
			case *ast.Link:
				d.links = append(d.links, string(n.Destination))
			case *ast.Image:
				d.links = append(d.links, string(n.Destination))
			case *ast.CodeSpan:
				d.spans = append(d.spans, textOf(n, source))
			case *ast.CodeBlock, *ast.FencedCodeBlock:
				d.blocks = append(d.blocks, string(n.Lines().Value(source)))
			case *ast.Heading:
				heading := textOf(n, source)
				d.anchors = append(d.anchors, anchor(heading, d.anchors))
			}
			return ast.WalkContinue, nil
		})
		require.NoError(t, err)
		all = append(all, d)
	}
	require.NotEmpty(t, all)
	return all
}

// files returns the paths, relative to the repository, of the repository's files with one of the suffixes. It leaves out hidden
// directories, programs and installed npm packages.
func files(t *testing.T, suffixes ...string) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(repository, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		hidden := strings.HasPrefix(e.Name(), ".") && path != repository
		if e.IsDir() && (hidden || e.Name() == "node_modules" || e.Name() == "bin") {
			return fs.SkipDir
		}
		if e.Type().IsRegular() && slices.ContainsFunc(suffixes, func(suffix string) bool { return strings.HasSuffix(path, suffix) }) {
			rel, err := filepath.Rel(repository, path)
			paths = append(paths, filepath.ToSlash(rel))
			return err
		}
		return nil
	})
	require.NoError(t, err)
	return paths
}

// readRepository returns the content of the file at the path in the repository.
func readRepository(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(repository, path))
	require.NoError(t, err)
	return string(b)
}

// textOf returns the text in the node, without its formatting.
func textOf(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if t, ok := n.(*ast.Text); ok && entering {
			b.Write(t.Value(source))
			if t.SoftLineBreak() {
				b.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

// anchor returns the anchor that GitHub gives to a heading. earlier has the anchors of earlier headings.
func anchor(heading string, earlier []string) string {
	slug := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		case r == ' ':
			return '-'
		}
		return -1
	}, heading)
	unique := slug
	for i := 1; slices.Contains(earlier, unique); i++ {
		unique = slug + "-" + strconv.Itoa(i)
	}
	return unique
}

// TestDocLinks checks that each relative link of a Markdown file names an existing file and heading.
func TestDocLinks(t *testing.T) {
	t.Parallel()
	all := documents(t)
	for _, d := range all {
		for _, link := range d.links {
			target, fragment, hasFragment := strings.Cut(link, "#")
			if strings.Contains(target, ":") { // another site
				continue
			}
			path := d.path
			if target != "" {
				path = filepath.ToSlash(filepath.Join(filepath.Dir(d.path), target))
			}
			if _, err := os.Stat(filepath.Join(repository, path)); err != nil {
				t.Errorf("%s links to %s, which does not exist", d.path, link)
				continue
			}
			i := slices.IndexFunc(all, func(d document) bool { return d.path == path })
			if hasFragment && (i < 0 || !slices.Contains(all[i].anchors, fragment)) {
				t.Errorf("%s links to %s, which has no such heading", d.path, link)
			}
		}
	}
}

// TestDocPaths checks that files of the repository that documents name exist, and documents that comments and scripts name.
func TestDocPaths(t *testing.T) {
	t.Parallel()
	exists := func(path string) bool {
		_, err := os.Stat(filepath.Join(repository, path))
		return err == nil
	}
	source := regexp.MustCompile(`^(cmd|docs|internal|proto|gen|testdata)/[\w./-]*\w/?$`)
	for _, d := range documents(t) {
		for _, span := range d.spans {
			if d.path != "CHANGELOG.md" && source.MatchString(span) && !exists(span) {
				t.Errorf("%s names `%s`, which does not exist", d.path, span)
			}
		}
	}
	doc := regexp.MustCompile(`\bdocs/[\w./-]*\.(md|sh)\b`)
	for _, path := range append(files(t, ".go", ".yaml", ".sh", ".tf", ".proto"), "Makefile") {
		if strings.HasPrefix(path, "testdata/cassettes/") {
			continue
		}
		for _, name := range doc.FindAllString(readRepository(t, path), -1) {
			if !exists(name) {
				t.Errorf("%s names %s, which does not exist", path, name)
			}
		}
	}
}

// TestDocIndexes checks that the indexes of docs/ link to every document for people, and that the index of decisions has the titles
// of the decisions.
func TestDocIndexes(t *testing.T) {
	t.Parallel()
	all := map[string]document{}
	for _, d := range documents(t) {
		all[d.path] = d
	}
	for path, d := range all {
		index, name := "docs/README.md", strings.TrimPrefix(path, "docs/")
		decision := strings.HasPrefix(path, "docs/decisions/")
		if decision {
			index, name = "docs/decisions/README.md", filepath.Base(path)
		}
		if !strings.HasPrefix(path, "docs/") || path == index {
			continue
		}
		if strings.HasPrefix(path, "docs/use/claude-code/") && filepath.Base(path) != "README.md" { // Claude Code reads these files
			continue
		}
		if !slices.Contains(all[index].links, name) {
			t.Errorf("%s has no link to %s", index, name)
		}
		if decision && filepath.Base(path) != "README.md" {
			line, _, _ := strings.Cut(d.source, "\n")
			number, title, found := strings.Cut(strings.TrimPrefix(line, "# "), ". ")
			require.True(t, found, "the first line of %s is not \"# NUMBER. TITLE\"", path)
			require.Contains(t, all[index].source, fmt.Sprintf("[%03s](%s): %s", number, name, title), "the title of %s", path)
		}
	}
}

// TestDocTests checks that tests named in documents exist.
func TestDocTests(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func (Test\w+|Fuzz\w+)\(`)
	for _, path := range files(t, "_test.go", "test/suite.go") {
		for _, m := range function.FindAllStringSubmatch(readRepository(t, path), -1) {
			known[m[1]] = true
		}
	}
	name := regexp.MustCompile(`^(Test|Fuzz)[A-Z]\w*$`)
	for _, d := range documents(t) {
		for _, span := range d.spans {
			if name.MatchString(span) && !known[span] {
				t.Errorf("%s names the test `%s`, which does not exist", d.path, span)
			}
		}
	}
}

// TestDocSettings checks that the server accepts YAML blocks of documents that start with "# fleet.yaml".
func TestDocSettings(t *testing.T) {
	t.Parallel()
	for _, d := range documents(t) {
		for _, block := range d.blocks {
			if strings.HasPrefix(block, "# fleet.yaml") {
				_, err := Load(writeConfig(t, block), nil, nil)
				require.NoError(t, err, "%s:\n%s", d.path, block)
			}
		}
	}
}

// TestDocCommands checks that commands, flags and make targets in documents exist. In code blocks it also checks the values of flags
// and the number of arguments.
func TestDocCommands(t *testing.T) {
	t.Parallel()
	makefile := readRepository(t, "Makefile")
	for _, d := range documents(t) {
		if strings.HasPrefix(d.path, "docs/decisions/") || strings.HasPrefix(d.path, "testdata/") || d.path == "CHANGELOG.md" {
			continue // these documents contain old and internal commands
		}
		for _, span := range d.spans {
			for _, words := range commandsIn(span, "fleet") {
				checkCommand(t, d.path, words)
			}
		}
		for _, block := range d.blocks {
			for _, words := range commandsIn(block, "fleet") {
				checkCommandLine(t, d.path, words)
			}
		}
		for _, code := range slices.Concat(d.spans, d.blocks) {
			for _, words := range commandsIn(code, "make") {
				for _, target := range words {
					if target == strings.ToLower(target) && !strings.ContainsAny(target, "=-.") && !strings.Contains(makefile, "\n"+target+":") {
						t.Errorf("%s: there is no target for `make %s`", d.path, target)
					}
				}
			}
		}
	}
}

// commandTree returns the root command of the program.
func commandTree() *cobra.Command {
	p := &program{version: "test"}
	root := cli.New(cli.Deps{})
	root.AddCommand(p.commands()...)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	return root
}

// placeholder matches ellipses, and words that a reader replaces.
var placeholder = regexp.MustCompile(`^([A-Z]+|\.\.\.|…)$`)

// checkCommand fails the test if the program does not have the command or its flags. words are the words after the
// program's name.
func checkCommand(t *testing.T, path string, words []string) {
	t.Helper()
	findCommand(t, path, words)
}

// checkCommandLine does what checkCommand does, and also checks the values of the flags and the number of arguments.
func checkCommandLine(t *testing.T, path string, words []string) {
	t.Helper()
	cmd, rest := findCommand(t, path, words)
	if cmd == nil || slices.ContainsFunc(rest, func(w string) bool { return placeholder.MatchString(w) && strings.Contains(w, ".") }) {
		return
	}
	err := cmd.ParseFlags(rest)
	if err == nil {
		err = cmd.ValidateArgs(cmd.Flags().Args())
	}
	if err != nil {
		t.Errorf("%s: `fleet %s`: %v", path, strings.Join(words, " "), err)
	}
}

// findCommand does what checkCommand does, and returns the command and the words after its name. cmd is nil if the test has
// failed, or if the words after the name cannot be checked further.
func findCommand(t *testing.T, path string, words []string) (cmd *cobra.Command, rest []string) {
	t.Helper()
	commandLine := "fleet " + strings.Join(words, " ")
	root := commandTree()
	if len(words) == 0 || placeholder.MatchString(words[0]) {
		return nil, nil
	}
	cmd, rest, err := root.Find(words)
	if err != nil {
		t.Errorf("%s: `%s`: %v", path, commandLine, err)
		return nil, nil
	}
	if cmd.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") && !placeholder.MatchString(rest[0]) {
		t.Errorf("%s: `%s`: %s has no command %s", path, commandLine, cmd.CommandPath(), rest[0])
		return nil, nil
	}
	cmd.InitDefaultHelpFlag()
	_ = cmd.InheritedFlags() // merges the flags of the parents into cmd.Flags
	for _, word := range rest {
		name, _, _ := strings.Cut(word, "=")
		var flag *pflag.Flag
		switch {
		case name == "--":
			return nil, nil
		case strings.HasPrefix(name, "--"):
			flag = cmd.Flags().Lookup(name[2:])
		case strings.HasPrefix(name, "-") && len(name) == 2:
			flag = cmd.Flags().ShorthandLookup(name[1:])
		default:
			continue
		}
		if flag == nil {
			t.Errorf("%s: `%s`: %s has no flag %s", path, commandLine, cmd.CommandPath(), name)
			return nil, nil
		}
	}
	return cmd, rest
}

// commandsIn returns the arguments of each call of the program in a shell text. Arguments that xargs adds are "...".
func commandsIn(shell, program string) (calls [][]string) {
	start := regexp.MustCompile(`(?m)(?:^[ \t]*(?:\$ )?|[|;&(] ?|xargs |then |do |-- )(?:[A-Z_]+=\S* )*(?:bin/)?` + program + `(?: |$)`)
	shell = strings.ReplaceAll(shell, "\\\n", " ")
	for _, at := range start.FindAllStringIndex(shell, -1) {
		line, _, _ := strings.Cut(shell[at[1]:], "\n")
		call := shellWords(line)
		if strings.Contains(shell[at[0]:at[1]], "xargs") {
			call = append(call, "...") // xargs adds arguments
		}
		calls = append(calls, call)
	}
	return calls
}

// shellWords splits the first command of a shell line into its words, without their quotes.
func shellWords(line string) (all []string) {
	var word strings.Builder
	var quote rune
	begun := false
	end := func() {
		if begun {
			all = append(all, word.String())
		}
		word.Reset()
		begun = false
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			quote, begun = r, true
		case quote == 0 && strings.ContainsRune("|;&()<>", r), quote == 0 && !begun && r == '#':
			end()
			return all
		case quote == 0 && unicode.IsSpace(r):
			end()
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	end()
	return all
}

// TestCommandsIn checks that commandsIn finds each call of the program, with its arguments, and nothing else.
func TestCommandsIn(t *testing.T) {
	t.Parallel()
	for shell, want := range map[string][][]string{
		`fleet task run papi "make test" -f  # in time`:          {{"task", "run", "papi", "make test", "-f"}},
		"id=$(fleet task list -q) && fleet task wait \"$id\"":    {{"task", "list", "-q"}, {"task", "wait", "$id"}},
		"fleet task list -q | xargs fleet task delete":           {{"task", "list", "-q"}, {"task", "delete", "..."}},
		"claude mcp add fleet -- fleet mcp":                      {{"mcp"}},
		"claude mcp add --transport http fleet http://x":         nil,
		"a fleet has agents":                                     nil,
		"$ FLEET_TOKEN=x bin/fleet agent create a \\\n --spec b": {{"agent", "create", "a", "--spec", "b"}},
	} {
		require.Equal(t, want, commandsIn(shell, "fleet"), shell)
	}
}

// TestCommandTree checks that commandTree has commands of all kinds.
func TestCommandTree(t *testing.T) {
	t.Parallel()
	root := commandTree()
	names := map[string]bool{}
	for _, c := range root.Commands() {
		names[c.Name()] = true
	}
	require.Subset(t, slices.Collect(maps.Keys(names)), []string{"agent", "task", "serve", "mcp", "init", "help", "subagents"})
}
