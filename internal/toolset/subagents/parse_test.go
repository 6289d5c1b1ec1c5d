package subagents

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/waittest"
)

var testDrivers = []fleet.Driver{
	{Name: "shell", RunsScripts: true},
	{Name: "claude", EnforcesTools: true, Asks: true, SupportsMCPServers: true, ReachesFleet: true, Remembers: true},
	{Name: "command", NeedsCommand: true},
	{Name: "codex", Remembers: true},
	{Name: "opencode", EnforcesTools: true, Asks: true, SupportsMCPServers: true, Remembers: true},
}

func TestParse(t *testing.T) {
	t.Parallel()
	d, err := parse(directorySource("web-search"), []byte("\ufeff\n---\r\n"+strings.ReplaceAll(`name: web-search
description: " Searches. "
session: true
allowed_callers: [main, lead]
calls: [other]
timeout_ms: 30000
model: haiku
permissions:
  allow: ["Bash(curl:*)", Read]
  deny: ["Bash(rm:*)", "mcp__brave__*"]
mcp_servers:
  - name: brave
    command: npx
    args: ["-y", "x"]
    env: {KEY: "${KEY}"}
  - {name: web, url: "https://example.com/mcp", headers: {Authorization: "Bearer ${T}"}}
pass_env: [AWS_*]
output_schema: {type: object}
`, "\n", "\r\n")+"--- \r\n\r\nYou search.\r\n\r\n---\r\nNot a frontmatter.\r\n"), []byte(" likes birds \n"), testDrivers)
	require.NoError(t, err)
	require.NotNil(t, d.compiledSchema)
	d.compiledSchema = nil
	require.Equal(t, &Definition{
		Name: "web-search", Description: "Searches.", Session: true, AllowedCallers: []string{"main", "lead"}, Subagents: []string{"other"},
		Timeout: 30 * time.Second, RunsIn: "local", Remembers: true, Driver: "claude", Model: "haiku", Allow: []string{"Bash(curl:*)", "Read"},
		Deny: []string{"Bash(rm:*)", "mcp__brave__*"}, PassEnv: []string{"AWS_*"}, OutputFormat: "json", Schema: []byte(`{"type":"object"}`),
		MCPServers: []fleet.MCPServer{
			{Name: "brave", Command: "npx", Args: []string{"-y", "x"}, Env: map[string]string{"KEY": "${KEY}"}},
			{Name: "web", URL: "https://example.com/mcp", Headers: map[string]string{"Authorization": "Bearer ${T}"}},
		},
		Body: "You search.\r\n\r\n---\r\nNot a frontmatter.\n\n# Memory\n\nlikes birds",
	}, d)

	d, err = parse(directorySource("a"), []byte("---\n---\nSearch."), []byte("likes birds"), testDrivers)
	require.NoError(t, err)
	require.Equal(t, "Search.", d.Body, "memory.md must have no effect without sessions")
	require.Equal(t, []string{"memory.md has no effect without session: true"}, d.Warnings)

	d, err = parse(directorySource("a"), []byte("---\n---\n"), nil, testDrivers)
	require.NoError(t, err)
	require.Equal(t, &Definition{Name: "a", AllowedCallers: []string{"main"}, RunsIn: "local", Remembers: true, Driver: "claude", OutputFormat: "text"}, d)
	d, err = parse(directorySource("a"), []byte("---\npermissions: {allow: []}\nallowed_callers: []\n---"), nil, testDrivers)
	require.NoError(t, err)
	require.Equal(t, []string{}, d.Allow, "an empty list of tools must stay an empty list, because with nil the driver decides")
	require.Empty(t, d.AllowedCallers)
	d, err = parse(directorySource("a"), []byte("---\ncontainer: coder\nproject: Setup\nrole: Coder\n---\nDo it."), nil, testDrivers)
	require.NoError(t, err)
	require.Equal(t, &Definition{Name: "a", AllowedCallers: []string{"main"}, RunsIn: "coder", Remembers: true, Project: "Setup", Role: "Coder", OutputFormat: "text", Body: "Do it."}, d)
	require.Nil(t, d.agentConfig(0, 3))
	for _, front := range []string{"driver: codex", "driver: opencode\npermissions: {allow: [Bash(ls *)], deny: [WebFetch]}", "container: local", "driver: command\ncommand: [cat]", "output_format: json"} {
		_, err := parse(directorySource("a"), []byte("---\n"+front+"\n---\n"), nil, testDrivers)
		require.NoError(t, err, front)
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	bomb := "a: &a [x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c < 'k'; c++ {
		bomb += string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+string(c-1)+", ", 9) + "]\n"
	}
	for _, tc := range []struct{ front, want string }{
		{"alowed_callers: []", `line 2: there is no key "alowed_callers": did you mean "allowed_callers"?`},
		{"description: x\npermision: {allow: []}", `line 3: there is no key "permision": did you mean "permissions"?`},
		{"tool: Read", `there is no key "tool": did you mean "tools"?`},
		{"description: x\nallowedCallers: [main]", `line 3: there is no key "allowedCallers": did you mean "allowed_callers"?`},
		{"permissions: {alow: []}", `did you mean "allow"?`},
		{"permissions: {completely_else: 1}", "the keys are allow, allowed_callers, args"},
		{"tools: Read\npermissions: {allow: [Read]}", "tools and permissions.allow mean the same: keep one of them"},
		{"tools: {a: b}", "line 2: a list is needed here"},
		{"disallowedTools: 'Read Write'", `"Read Write" is not a tool`},
		{"session: maybe", "line 2: true or false is needed here"},
		{"timeout_ms: soon", "line 2: a number is needed here"},
		{"allowed_callers: main", "line 2: string was used where sequence is expected"},
		{"mcp_servers: {a: b}", "line 2: mapping was used where sequence is expected"},
		{"session: true\nsession: false", `line 2: the key "session" is repeated: keep one of them`},
		{"- a list", "sequence was used where mapping is expected"},
		{"just words", "string was used where mapping is expected"},
		{"name: [", "line 2: sequence end token ']' not found"},
		{"\tname: x", "tab character"},
		{bomb, "anchors and aliases are not accepted"},
		{"name: &x a", "anchors and aliases are not accepted"},
		{"output_schema: {<<: {type: object}}", "anchors and aliases are not accepted"},
		{"output_schema: " + strings.Repeat("[", 20000), "nested too deep"},
		{"output_schema: " + strings.Repeat("{a: ", 15000), "nested too deep"},
		{"output_schema:\n " + strings.Repeat("- ", 30000) + "a", "nested too deep"},
		{"description: " + strings.Repeat("x", maxHeader), "put the instructions below it"},

		{"name: 'a b'", `name is "a b", but the directory is "a": give both the same name`},
		{"name: other", `name is "other", but the directory is "a": give both the same name`},
		{"allowed_callers: ['']", `allowed_callers: "" is not a valid name`},
		{"calls: [main]", `"main" is not a subagent`},
		{"calls: ['a b']", `calls: "a b" is not a valid name`},
		{"permissions: {allow: ['Bash(ls', Read]}", `"Bash(ls" is not a tool`},
		{"permissions: {deny: ['Read,Write']}", `"Read,Write" is not a tool`},
		{"permissions: {ask: ['Read,Write']}", `"Read,Write" is not a tool`},
		{"permissions: {allow: ['--dangerously-skip-permissions']}", "is not a tool"},
		{"pass_env: [FLEET_TOKEN]", `pass_env: "FLEET_TOKEN"`},
		{"pass_env: ['*']", `pass_env: "*"`},
		{"timeout_ms: 0", "timeout_ms must be a whole number from 1 to 2592000000"},
		{"timeout_ms: 1.5", "timeout_ms must be a whole number"},
		{"timeout_ms: -1", "timeout_ms must be a whole number"},
		{"timeout_ms: 1e300", "timeout_ms must be a whole number"},
		{"timeout_ms: .nan", "timeout_ms must be a whole number"},

		{"mcp_servers: [{command: a}]", `mcp_servers[0] "": the name of a server must consist`},
		{"mcp_servers: [{name: a__b, command: a}]", "the name of a server must consist"},
		{"mcp_servers: [{name: fleet, command: a}]", "already exists: choose another name"},
		{"mcp_servers: [{name: a, command: a}, {name: a, command: b}]", "already exists: choose another name"},
		{"mcp_servers: [{name: a}]", "needs either a command or a url"},
		{"mcp_servers: [{name: a, command: a, url: 'http://x'}]", "needs either a command or a url"},
		{"mcp_servers: [{name: a, url: 'file:///etc/passwd'}]", "not an http or https address"},
		{"mcp_servers: [{name: a, url: 'http://x', env: {A: b}}]", "for servers with a command"},
		{"mcp_servers: [{name: a, command: x, headers: {A: b}}]", "for servers with a url"},
		{"mcp_servers: [{name: a, command: x, args: ['${KEY}']}]", "variables are allowed only in env and headers"},
		{"mcp_servers: [{name: a, url: 'http://x/${KEY}'}]", "variables are allowed only in env and headers"},
		{"mcp_servers: [{name: a, command: x, env: {'A B': c}}]", "not a valid name of an environment variable"},

		{"output_format: xml", `output_format is "xml": it must be text or json`},
		{"output_format: text\noutput_schema: {type: object}", "output_schema is for output_format: json"},
		{"output_schema: {type: thing}", "output_schema is not a valid JSON Schema: at /type"},
		{"output_schema: {$ref: 'file:///etc/passwd'}", "it refers to another document"},
		{"output_schema: {$ref: 'https://example.com/x'}", "it refers to another document"},
		{"output_schema: {pattern: '('}", "output_schema is not a valid JSON Schema"},

		{"container: docker", `container is "docker": it must be coder`},
		{"container: coder", "container: coder needs a project"},
		{"project: x", "project and role are for container: coder"},
		{"container: coder\nproject: x\npermissions: {allow: []}", "cannot be enforced there"},
		{"container: coder\nproject: x\nmodel: y", "cannot be enforced there"},
		{"driver: shell", `driver is "shell": it must be one of claude, command, codex, opencode`},
		{"driver: nope", `driver is "nope": it must be one of claude, command, codex, opencode`},
		{"driver: command", "needs a command"},
		{"driver: codex\npermissions: {ask: []}", "cannot enforce permissions"},
		{"driver: codex\npermissions: {deny: [Read]}", "cannot enforce permissions"},
		{"driver: command\ncommand: [x]\ncalls: [b]", "cannot enforce permissions"},
	} {
		begun := time.Now()
		_, err := parse(directorySource("a"), []byte("---\n"+tc.front+"\n---\nDo it."), nil, testDrivers)
		require.ErrorContains(t, err, tc.want, fleet.Shorten(tc.front, 60))
		require.Less(t, time.Since(begun), waittest.Limit, fleet.Shorten(tc.front, 60))
		require.Less(t, len(err.Error()), 1000)
	}
	for text, want := range map[string]string{
		"":                              "does not begin with a frontmatter",
		"You search.":                   "does not begin with a frontmatter",
		"---\nname: a\nYou search.":     "does not begin with a frontmatter",
		"x\n---\nname: a\n---\n":        "does not begin with a frontmatter",
		"---\nname: a\n---\nzero\x00":   "zero byte",
		"---\nname: a\n---\n\xff":       "not UTF-8",
		"---\nname: \"s3cret\": x\n---": "line 2",
	} {
		_, err := parse(directorySource("a"), []byte(text), nil, testDrivers)
		require.ErrorContains(t, err, want, "%q", text)
		require.NotContains(t, err.Error(), "s3cret")
	}
	_, err := parse(directorySource("a"), []byte("---\n---\n"), []byte("\x00"), testDrivers)
	require.ErrorContains(t, err, "zero byte")
}

// FuzzParse checks that parse returns either a definition or an error with a text for every file, and does not hang.
func FuzzParse(f *testing.F) {
	f.Add([]byte("---\nname: a\nsession: true\n---\nDo it."), []byte("memory"))
	f.Add([]byte("---\nmcp_servers: [{name: a, command: b, env: {K: '${V}'}}]\npermissions: {allow: [Read]}\n---\n"), []byte(nil))
	f.Add([]byte("---\noutput_schema: {type: object, properties: {a: {$ref: '#'}}}\n---\n"), []byte(nil))
	f.Add([]byte("---\na: &a [*a]\n---\n"), []byte(nil))
	f.Fuzz(func(t *testing.T, data, memory []byte) {
		if len(data) > maxFile {
			t.Skip()
		}
		timer := time.AfterFunc(waittest.Limit, func() { panic(fmt.Sprintf("parse hangs on %q", data)) })
		defer timer.Stop()
		d, err := parse(directorySource("a"), data, memory, testDrivers)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		require.Equal(t, "a", d.Name)
		require.Contains(t, []string{"text", "json"}, d.OutputFormat)
		if d.RunsIn == runsInLocal {
			require.NotNil(t, d.agentConfig(0, 3))
			require.NotEqual(t, "shell", d.Driver)
		}
		_ = d.checkVariables(func(string) (string, bool) { return "", false })
		d.checkAnswer(string(memory))
	})
}
