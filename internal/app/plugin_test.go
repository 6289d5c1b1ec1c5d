package app

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"fleet/internal/face/mcp"
	"fleet/internal/face/wire"
)

var (
	// quotedName matches a name in backticks that has an underscore, as the names of tools and of many fields do.
	quotedName = regexp.MustCompile("`([a-z]+(?:_[a-z]+)+)`")
	// jsonKey matches a key of JSON.
	jsonKey = regexp.MustCompile(`"([a-z_]+)":`)
	// exampleCall matches an example of a call of a tool: a line with the tool and its arguments.
	exampleCall = regexp.MustCompile(`(?m)^\s+([a-z]+(?:_[a-z]+)+) (\{.*\})$`)
)

// orchestratorTexts are the texts that tell an AI client how to run agents.
var orchestratorTexts = []string{
	"docs/use/claude-code/skills/*/SKILL.md", "docs/use/claude-code/commands/*.md", "docs/use/orchestrate.md", "internal/face/mcp/prompts/*.md",
}

// TestOrchestratorNames checks that the tools and fields that orchestratorTexts name exist, and that the examples of calls
// are valid.
func TestOrchestratorNames(t *testing.T) {
	t.Parallel()
	fields := map[string]bool{}
	for _, m := range methods {
		addFields(fields, m.Input(), map[protoreflect.FullName]bool{})
		addFields(fields, m.Output(), map[protoreflect.FullName]bool{})
	}
	named, calls := 0, 0
	for _, pattern := range orchestratorTexts {
		paths, err := filepath.Glob(filepath.Join(repository, pattern))
		require.NoError(t, err)
		require.NotEmpty(t, paths, pattern)
		for _, path := range paths {
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			text := string(b)
			for _, word := range append(quotedName.FindAllStringSubmatch(text, -1), jsonKey.FindAllStringSubmatch(text, -1)...) {
				named++
				if methods[word[1]] == nil && !fields[word[1]] {
					t.Errorf("%s: %s is neither a tool nor a field", path, word[1])
				}
			}
			for _, call := range exampleCall.FindAllStringSubmatch(text, -1) {
				calls++
				m := methods[call[1]]
				if m == nil {
					t.Errorf("%s: there is no tool %s", path, call[1])
					continue
				}
				if err := wire.Unmarshal([]byte(call[2]), dynamicpb.NewMessage(m.Input())); err != nil {
					t.Errorf("%s: %s: %s", path, call[0], err)
				}
			}
		}
	}
	require.Greater(t, named, 60)
	require.Positive(t, calls)
}

// addFields adds the names of the fields of the message and of its nested messages.
func addFields(to map[string]bool, m protoreflect.MessageDescriptor, seen map[protoreflect.FullName]bool) {
	if seen[m.FullName()] {
		return
	}
	seen[m.FullName()] = true
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		to[string(f.Name())] = true
		if f.Message() != nil {
			addFields(to, f.Message(), seen)
		}
	}
}

// TestPluginStarts checks the command with which the plugin for Claude Code starts the MCP server: the command exists, and
// serves each tool that the skill names.
func TestPluginStarts(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(repository, "docs", "use", "claude-code")
	b, err := os.ReadFile(filepath.Join(dir, ".mcp.json"))
	require.NoError(t, err)
	var config struct {
		Servers map[string]struct {
			Command string
			Args    []string
		} `json:"mcpServers"`
	}
	require.NoError(t, json.Unmarshal(b, &config))
	s := config.Servers["fleet"]
	require.Equal(t, "${FLEET_PROGRAM:-fleet}", s.Command)
	checkCommandLine(t, ".mcp.json", s.Args)
	require.Equal(t, []string{"mcp", "--tools"}, s.Args[:2])
	tools := strings.Split(s.Args[2], ",")
	require.NoError(t, mcp.CheckTools(tools))
	skill, err := os.ReadFile(filepath.Join(dir, "skills", "orchestrate", "SKILL.md"))
	require.NoError(t, err)
	for _, word := range quotedName.FindAllStringSubmatch(string(skill), -1) {
		if methods[word[1]] != nil && !strings.HasPrefix(word[1], "list_agent_") { // the MCP server always serves these
			require.Contains(t, tools, word[1])
		}
	}
}
