package definition

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNewerDefinitions checks that a definition of a newer version loads, and that warnings name the parts that have no
// effect.
func TestNewerDefinitions(t *testing.T) {
	t.Parallel()
	d, err := Parse([]byte(`version: "7"
agents:
  root:
    model: openai/gpt-5
    description: "Answers: always"
    instruction: |
      Line one

      - line two: "quoted" # no comment
    fallback: {models: [openai/gpt-4o]}
    sub_agents: [helper, catalog/pirate]
    rag: [docs]
    toolsets:
      - type: openapi
        url: https://example.com/openapi.json
      - type: mcp
        command: uvx
        version: "astral-sh/uv"
      - type: mcp
        ref: context7
      - type: think
  helper:
    model: openai/gpt-5
    description: Helps
    instruction: Help.
`))
	require.NoError(t, err)
	require.Equal(t, []string{
		`version 7 is newer than this server knows: it is read as version 3`,
		`agents.root.rag is something that agents of Fleet do not have and is left out`,
		`agents.root.toolsets[2] refers to a definition of an MCP server, which this build cannot follow, and is left out`,
		`agents.root.toolsets[0] has the type "openapi", which this build does not have, and is left out`,
		`agents.root.sub_agents[1] is "catalog/pirate", an agent of a registry, which this build does not fetch, and is left out`,
		`agents.root.toolsets[1].version is not known to this version of Fleet and is left out`,
		`agents.root.fallback is not known to this version of Fleet and is left out`,
	}, d.Warnings)
	root := d.Config.Agents["root"]
	require.Equal(t, "Line one\n\n- line two: \"quoted\" # no comment\n", root.Instruction)
	require.Equal(t, []string{"helper"}, root.SubAgents)
	require.Len(t, root.Toolsets, 2)
	require.Equal(t, "uvx", root.Toolsets[0].Command)

	for document, want := range map[string]string{
		"version: \"3\"\nagents: {root: {model: m, instruction: i}}\npermissions: {deny: [shell], ask_first: [shell]}": `unknown field "ask_first"`,
		"agents: {root: {toolsets: [{type: shell, path: x}]}}":                                                         "path can only be used",
		"agents: {root: {sub_agents: [nobody]}}":                                                                       "non-existent sub-agent 'nobody'",
	} {
		_, err := Parse([]byte(document))
		require.ErrorContains(t, err, want)
	}
}

// TestOtherForms checks that parts in the form of a newer version of the library are read.
func TestOtherForms(t *testing.T) {
	t.Parallel()
	d, err := Parse([]byte("agents:\n  root:\n    model: openai/m\n    skills: [local, \"https://example.com/skills\"]\n    toolsets: [{type: memory}, {type: filesystem}]\n" +
		"  other:\n    model: openai/m\n    skills: [\"https://example.com/skills\"]\n    toolsets: [{type: memory}]\n"))
	require.NoError(t, err)
	root, other := d.Config.Agents["root"], d.Config.Agents["other"]
	require.True(t, *root.Skills)
	require.False(t, *other.Skills)
	require.NotEqual(t, root.Toolsets[0].Path, other.Toolsets[0].Path, "each agent must have memories of its own")
	require.Equal(t, []string{
		`agents.root.skills[1] is "https://example.com/skills", and not the skills of this machine (local), and is left out`,
		`agents.other.skills[0] is "https://example.com/skills", and not the skills of this machine (local), and is left out`,
	}, d.Warnings)
}

// TestServerWarnings checks the warnings about parts that will not work on the server.
func TestServerWarnings(t *testing.T) {
	t.Parallel()
	keyIsSet := func(string) (string, bool) { return "a key", true }
	for name, tc := range map[string]struct {
		document string
		lookup   func(string) (string, bool)
		want     []string
	}{
		"all is well": {
			"version: \"3\"\nagents: {root: {model: openai/m, toolsets: [{type: think}, {type: shell, tools: [list_background_jobs]}, {type: filesystem}]}}\npermissions: {allow: [edit_file, 'write_*']}",
			keyIsSet, nil,
		},
		"a key is missing": {
			"agents: {root: {model: anthropic/m}}", func(string) (string, bool) { return "", false },
			[]string{"its model needs ANTHROPIC_API_KEY, which is not set in the server's environment"},
		},
		"a provider is missing": {
			"agents: {root: {model: amazon-bedrock/m}}", keyIsSet,
			[]string{`agent "root": this build does not have the provider "amazon-bedrock" of its model`},
		},
		"tools that may be used with some arguments": {
			"version: \"3\"\nagents: {root: {model: openai/m, toolsets: [{type: shell, tools: [shell]}]}}\npermissions: {allow: ['shell:cmd=ls *'], deny: ['shell:cmd=rm *']}", keyIsSet,
			[]string{`agent "root": shell may only be used with the arguments that permissions.allow names, since nobody is there to be asked about others`},
		},
		"tools that change something": {
			"version: \"3\"\nagents: {root: {model: openai/m, toolsets: [{type: shell}, {type: filesystem}]}}\npermissions: {allow: [shell], deny: [write_file]}", keyIsSet,
			[]string{`agent "root": these tools are refused, since nobody is there to be asked: run_background_job, stop_background_job, edit_file. Name them under permissions.allow, in version "3" of definitions`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, err := Parse([]byte(tc.document))
			require.NoError(t, err)
			require.Equal(t, tc.want, d.serverWarnings(tc.lookup, DefaultApprovedTypes))
		})
	}
}
