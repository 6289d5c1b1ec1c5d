package subagents

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestParseClaude checks that agent files written for Claude Code load unchanged.
func TestParseClaude(t *testing.T) {
	t.Parallel()
	reviewerFile := source{file: "team/reviewer.md", name: "reviewer", isSingleFile: true}
	for name, tc := range map[string]struct {
		front string
		want  Definition
	}{
		"tools as a text": {
			"name: dotnet-framework-4.8-expert\ndescription: \"Knows it.\"\ntools: Read, Bash(git log:*, git show:*), mcp__db__query\nmodel: haiku\ncolor: blue",
			Definition{Name: "dotnet-framework-4.8-expert", Description: "Knows it.", Model: "haiku", Allow: []string{"Read", "Bash(git log:*, git show:*)", "mcp__db__query"}},
		},
		"tools as a list":     {"tools:\n  - Read\n  - Grep\ndisallowedTools: Write", Definition{Name: "reviewer", Allow: []string{"Read", "Grep"}, Deny: []string{"Write"}}},
		"no tools at all":     {"tools: []", Definition{Name: "reviewer", Allow: []string{}}},
		"every tool":          {"tools: '*'", Definition{Name: "reviewer"}},
		"nothing after tools": {"tools:\nmodel: opus", Definition{Name: "reviewer", Model: "opus"}},
		"the caller's model":  {"model: inherit", Definition{Name: "reviewer"}},
		"a colon without quotes": {
			"name: reviewer\ndescription: Use this when: code changes. Examples: \"a\", it's #1\ntools: Read",
			Definition{Name: "reviewer", Description: `Use this when: code changes. Examples: "a", it's #1`, Allow: []string{"Read"}},
		},
		"a star without quotes": {"description: *Always* use it", Definition{Name: "reviewer", Description: "*Always* use it"}},
		"several lines without quotes": {
			"description: Use this when: code\n  changes, and:\n  always\nmodel: sonnet",
			Definition{Name: "reviewer", Description: "Use this when: code changes, and: always", Model: "sonnet"},
		},
		"an example in the description": {
			"description: Use this when: designing.\\n\\n<example>\\nContext: New app\nuser: \"We need: it\"\\nassistant: \"I'll do it\"\\n</example>\nuser: \"More\"\\nassistant: \"Sure\"\\n</example>\ncolor: red\ntools: Read, Grep",
			Definition{Name: "reviewer", Description: `Use this when: designing.\n\n<example>\nContext: New app`, Allow: []string{"Read", "Grep"}, Warnings: []string{
				`line 4: the key "user" is unknown and is ignored`,
			}},
		},
		"a repeated key": {
			"description: one\ncolor: red\ndescription: two\ncolor: blue",
			Definition{Name: "reviewer", Description: "two", Warnings: []string{`line 2: the key "description" is repeated: its last value is used`, `line 3: the key "color" is repeated: its last value is used`}},
		},
		"a list in brackets beside a text with a colon": {"description: when: it is\ntools: [Read,\n  Grep]", Definition{Name: "reviewer", Description: "when: it is", Allow: []string{"Read", "Grep"}}},
		"text in brackets":                   {"description: [x] y", Definition{Name: "reviewer", Description: "[x] y"}},
		"text after quotes":                  {"description: \"abc\" and 'more", Definition{Name: "reviewer", Description: `"abc" and 'more`}},
		"a bar":                              {"description: | foo", Definition{Name: "reviewer", Description: "| foo"}},
		"a block beside a text with a colon": {"description: |\n  a: b\n  c\nmodel: it: is", Definition{Name: "reviewer", Description: "a: b\nc", Model: "it: is"}},
		"windows line ends":                  {"name: reviewer\r\ndescription: when: it is\r\ntools: Read\r", Definition{Name: "reviewer", Description: "when: it is", Allow: []string{"Read"}}},
		"a tool of a plugin": {
			"tools: Read, catalog:search",
			Definition{Name: "reviewer", Allow: []string{"Read"}, Warnings: []string{`tools: "catalog:search" is not the name of a tool and is left out`}},
		},
		"unknown keys": {
			"hooks: {Stop: [{command: x}]}\nsesion: true",
			Definition{Name: "reviewer", Warnings: []string{
				`line 2: the key "hooks" is unknown and is ignored`,
				`line 3: the key "sesion" is unknown and is ignored: did you mean "session"?`,
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, err := parse(reviewerFile, []byte("---\n"+tc.front+"\n---\nDo it."), nil, testDrivers)
			require.NoError(t, err)
			tc.want.AllowedCallers, tc.want.RunsIn, tc.want.Driver, tc.want.OutputFormat, tc.want.Body = []string{"main"}, "local", "claude", "text", "Do it."
			tc.want.Remembers = true
			require.Equal(t, &tc.want, d)
		})
	}
	for front, want := range map[string]string{
		"name: 'a b'":                                   "letters, digits, dots",
		"name: main":                                    "choose another name",
		"name: ../x":                                    "letters, digits, dots",
		"tools: Read\ntools: Read, Bash":                `line 2: the key "tools" is repeated`,
		"disallowedTools: [Write, Bash":                 "is not a tool",
		"permissions: {deny: [Bash], deny: [Read]}":     `line 2: the key "deny" is repeated`,
		"mcp_servers: [{name: a, command: b, name: c}]": `line 2: the key "name" is repeated`,
		"description: a: b\npermissions: {deny: [Bash]": "line 2: ",
	} {
		_, err := parse(reviewerFile, []byte("---\n"+front+"\n---\n"), nil, testDrivers)
		require.ErrorContains(t, err, want)
	}
}
