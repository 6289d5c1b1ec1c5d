package driver

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// parseCodexRun parses the output of a Codex run that ended with e. output is the output itself, or the name of a recording of Codex
// 0.171.0 in testdata.
func parseCodexRun(t *testing.T, f Format, e Exit, output string) ([]Piece, Result) {
	t.Helper()
	if !strings.Contains(output, "\n") {
		data, err := os.ReadFile("testdata/codex-" + output + ".jsonl")
		require.NoError(t, err)
		output = string(data)
	}
	f.Kind, f.TestedVersion = "codex", codexTestedVersion
	pieces, p := parseAll(t, f, output)
	return pieces, p.Result(e)
}

const metadataWarning = "<Model metadata for `gpt-5.2-codex` not found. Defaulting to fallback metadata; this can degrade performance and cause issues.>"

func TestCodex(t *testing.T) {
	pieces, r := parseCodexRun(t, Format{InstructionsHash: "t1", Model: "gpt-5.2-codex"}, Exit{}, "tools")
	require.Equal(t, metadataWarning+"Now exec_command\n<shell: echo one; exit 3>{shell failed: one}Now exec_command\n<edit: made.txt>{edit answered}{changed /tmp/papi/made.txt}"+
		"Now mcp__birds__list_birds\n<birds.list_birds>{birds.list_birds answered: ducks for water undefined}<shell: sleep 0.2; echo a>{shell answered: a}One.\nTwo.\n{gpt-5.2-codex: 5000 tokens in, 2500 out}", piecesText(pieces))
	require.Equal(t, "01a201d1-e3a9-72c2-8e8e-7eb2444f4026 t1 5000 2500", r.Session)
	require.Equal(t, fleet.Outcome{
		Status: fleet.TaskCompleted, Summary: "One.\nTwo.", Payload: []byte("One.\nTwo."), ExitCode: new(int), Turns: 1,
		Usage: fleet.Usage{Model: "gpt-5.2-codex", InputTokens: 5000, OutputTokens: 2500, ToolCalls: 4},
	}, r.Outcome)

	// Codex reports the usage of the whole conversation.
	_, r = parseCodexRun(t, Format{InstructionsHash: "t1", Session: r.Session}, Exit{}, "resumed")
	require.Equal(t, fleet.Usage{InputTokens: 1000, OutputTokens: 500}, r.Outcome.Usage)
	require.Equal(t, "Yes again", r.Outcome.Summary)
	require.Equal(t, "01a201d1-e3a9-72c2-8e8e-7eb2444f4026 t1 6000 3000", r.Session)

	// A run that was stopped during a tool call has an open call, and its conversation can continue.
	data, err := os.ReadFile("testdata/codex-stopped.jsonl")
	require.NoError(t, err)
	_, p := parseAll(t, Format{Kind: "codex"}, string(data))
	require.Equal(t, 1, p.(CallCounter).OpenCalls())
	require.NotEmpty(t, p.Result(Exit{Code: 143}).Session)
}

func TestCodexFailures(t *testing.T) {
	for _, tt := range []struct {
		name, lines string
		exit        Exit
		reason      string
		code        fleet.ReasonCode
	}{
		{"refused", "refused", Exit{Code: 1}, "that is too much", fleet.CodeInvalidRequest},
		{"key", "key", Exit{Code: 1}, "unexpected status 401 Unauthorized: bad key, url: http://127.0.0.1:9911/v1/responses", fleet.CodeAuth},
		{"nothing", "\n", Exit{}, "this version of codex writes no output that Fleet understands; Fleet was tested with codex 0.171.0", fleet.CodeProgramChanged},
		{"garbage", "Welcome!\nBye.\n", Exit{}, "this version of codex writes no output that Fleet understands; its first line is Welcome!; Fleet was tested with codex 0.171.0", fleet.CodeProgramChanged},
		{
			"another protocol", `{"id":"0","msg":{"type":"task_started"}}` + "\n" + `{"id":"0","msg":{"type":"task_complete"}}` + "\n",
			Exit{},
			`this version of codex writes no output that Fleet understands; its first line is {"id":"0","msg":{"type":"task_started"}}; Fleet was tested with codex 0.171.0`, fleet.CodeProgramChanged,
		},
		{"another way to end", `{"type":"thread.started","thread_id":"1"}` + "\n", Exit{}, "codex ended before it completed a turn; Fleet was tested with codex 0.171.0", ""},
		{"an unknown flag", "\n", Exit{Code: 2, Stderr: "error: unexpected argument '--json' found\n"}, "exit code 2: error: unexpected argument '--json' found; Fleet was tested with codex 0.171.0", fleet.CodeProgramChanged},
		{"killed", "\n", Exit{Code: -1, Signal: "KILL"}, "ended by signal KILL", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, r := parseCodexRun(t, Format{}, tt.exit, tt.lines)
			require.Equal(t, fleet.TaskFailed, r.Outcome.Status)
			require.Equal(t, tt.reason, r.Outcome.Reason)
			require.Equal(t, tt.code, r.Outcome.ReasonCode)
		})
	}
	pieces, _ := parseCodexRun(t, Format{}, Exit{Code: 1}, "key")
	require.Equal(t, &fleet.RequestRetry{Attempt: 1, Limit: 6, Status: 401, Error: "unexpected status 401 Unauthorized: bad key, url: http://127.0.0.1:9911/v1/responses"}, pieces[2].Data.Retry)
	require.Equal(t, 5, strings.Count(piecesText(pieces), "is repeated"))
	require.Equal(t, 0, strings.Count(piecesText(pieces), "<unexpected status"), "an error must not be reported again")

	_, r := parseCodexRun(t, Format{Session: "x t1"}, Exit{Code: 1, Stderr: "Error: thread/resume: thread/resume failed: no rollout found for thread id x (code -32600)\n"}, "\n")
	require.Equal(t, Result{
		Outcome:          fleet.Outcome{Status: fleet.TaskFailed, Reason: "codex no longer has the conversation x; the agent's next task begins a new conversation", ExitCode: new(1)},
		LostConversation: true,
	}, r)
}

func TestCodexCommand(t *testing.T) {
	d, err := New(Options{Kind: "codex", Command: []string{"codex", "-c", "x=1"}})
	require.NoError(t, err)
	j := Job{Agent: "papi", Prompt: "Do it.", Spec: "Be good.", RunDir: "/runs/1", Role: Role{Name: "coder", Model: "m", PermissionMode: "plan"}}
	c, err := d.Command(j)
	require.NoError(t, err)
	require.Equal(t, "codex -c x=1 exec --json --skip-git-repo-check --sandbox read-only --model m -", strings.Join(c.Argv, " "))
	require.Equal(t, "You are the agent \"papi\". What you are there for:\n\nBe good.\n\nYour task now:\n\nDo it.", c.Files[0].Data)

	// The driver resumes a conversation, and includes changed instructions in the prompt.
	j.Session = "abc " + c.Format.InstructionsHash + " 10 20"
	c, err = d.Command(j)
	require.NoError(t, err)
	require.Equal(t, []string{"resume", "abc", "-"}, c.Argv[len(c.Argv)-3:])
	require.Equal(t, "Do it.", c.Files[0].Data)
	j.Spec = "Be better."
	c, err = d.Command(j)
	require.NoError(t, err)
	require.Contains(t, c.Files[0].Data, "has changed")
	require.Contains(t, c.Files[0].Data, "Be better.")

	// The sandbox of Codex does not work inside the sandbox of Fleet.
	j.Confined = true
	_, err = d.Command(j)
	require.ErrorContains(t, err, "cannot be restricted to reading where Fleet confines it")
	j.Role.PermissionMode = ""
	c, err = d.Command(j)
	require.NoError(t, err)
	require.Contains(t, c.Argv, "danger-full-access")
}

// TestCodexServers checks the settings for MCP servers. No argument may contain a secret of a server.
func TestCodexServers(t *testing.T) {
	d, err := New(Options{Kind: "codex"})
	require.NoError(t, err)
	j := Job{Agent: "papi", Prompt: "Do it.", Spec: "Be good.", RunDir: "/runs/1", Confined: true}
	j.Role = Role{Name: "coder", AllowedTools: []string{"mcp__birds__list_birds", "mcp__web"}, MCPServers: map[string]MCPServer{
		"birds": {Command: "birds", Args: []string{"-v"}, Env: map[string]string{"KEY": "it's s3cret"}},
		"web":   {Type: "http", URL: "http://x", Headers: map[string]string{"X-Key": "s3cret"}},
		"plain": {Command: "plain"},
	}}
	j.Report = &fleet.ServerEndpoint{URL: "http://fleet", Token: "s3cret"}
	c, err := d.Command(j)
	require.NoError(t, err)
	all := strings.Join(c.Argv, "\n")
	require.NotContains(t, all, "s3cret")
	for _, want := range []string{
		`mcp_servers.birds.args=["-c",". \"$0\"; exec \"$@\"","/runs/1/mcp-birds.sh","birds","-v"]`, `mcp_servers.birds.tools.list_birds.approval_mode="approve"`,
		`mcp_servers.web.env_http_headers={"X-Key"="FLEET_MCP_HEADER_2"}`, `mcp_servers.web.default_tools_approval_mode="approve"`,
		`mcp_servers.plain.command="plain"`, `mcp_servers.plain.args=[]`, `mcp_servers.fleet.default_tools_approval_mode="approve"`,
	} {
		require.Contains(t, all, "-c\n"+want+"\n")
	}
	require.Equal(t, map[string]string{"FLEET_MCP_HEADER_1": "Bearer s3cret", "FLEET_MCP_HEADER_2": "s3cret"}, c.Env)
	require.Equal(t, File{Name: "mcp-birds.sh", Data: "export KEY='it'\\''s s3cret'\n", Secret: true}, c.Files[0])

	j.AskCommand, j.Role.Permissions = []string{"fleet", "ask", "/runs/1"}, &Permissions{}
	c, err = d.Command(j)
	require.NoError(t, err)
	for _, want := range []string{
		`mcp_servers.fleet-ask.command="fleet"`, `mcp_servers.fleet-ask.args=["ask","/runs/1","mcp"]`, `mcp_servers.fleet-ask.tool_timeout_sec=3660`,
		`mcp_servers.fleet-ask.tools.ask_user.approval_mode="approve"`,
	} {
		require.Contains(t, c.Argv, want)
	}
}

// TestCodexRefusesRoles checks that the driver refuses roles whose rules Codex cannot follow.
func TestCodexRefusesRoles(t *testing.T) {
	d, err := New(Options{Kind: "codex"})
	require.NoError(t, err)
	for want, role := range map[string]Role{
		"never asks for permissions":    {Permissions: &Permissions{Deny: []string{"Bash(rm *)"}}},
		`no permission_mode "dontAsk"`:  {PermissionMode: "dontAsk"},
		"cannot restrict the available": {DisallowedTools: []string{"Bash"}},
		`leave "Bash(ls *)" out`:        {AllowedTools: []string{"Bash(ls *)"}},
		`over SSE, such as "s"`:         {MCPServers: map[string]MCPServer{"s": {Type: "sse", URL: "http://x"}}},
		`an MCP server "a.b"`:           {MCPServers: map[string]MCPServer{"a.b": {Command: "x"}}},
	} {
		_, err := d.Command(Job{Role: role})
		require.ErrorContains(t, err, want)
	}
}
