package driver

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// TestTerminals checks how each driver starts its program on a terminal in the agent's conversation, and when it refuses to.
func TestTerminals(t *testing.T) {
	t.Parallel()
	const id = "0198c0de-0000-7000-8000-000000000001"
	job := Job{RunDir: "/run", Role: Role{Prompt: "You write code.", Model: "m", AllowedTools: []string{"Bash"}}, ClientCommand: []string{"fleet", "client"}, Confined: true}
	for _, tc := range []struct {
		options Options
		session string
		argv    []string // the program's arguments; NEW stands for a new id
		file    string   // name of the file with the client's job; empty if the program is started directly
	}{
		{Options{Kind: "claude"}, id + " told", []string{"claude", "--setting-sources", "project", "--model", "m", "--allowedTools", "Bash", "--resume", id}, "claude.json"},
		{Options{Kind: "claude"}, "", []string{"claude", "--setting-sources", "project", "--model", "m", "--allowedTools", "Bash", "--session-id", "NEW", "--append-system-prompt-file", "/run/system.md"}, "claude.json"},
		{Options{Kind: "acp", Command: []string{"/bin/opencode", "acp"}}, "ses_1 told 0.5", []string{"/bin/opencode", "--session", "ses_1"}, ""},
		{Options{Kind: "shell"}, "", []string{"bash"}, ""},
	} {
		d, err := New(tc.options)
		require.NoError(t, err)
		j := job
		j.Session = tc.session
		c, err := TerminalCommand(d, j)
		require.NoError(t, err)
		argv := c.Argv
		if tc.file != "" {
			require.Equal(t, []string{"fleet", "client", "claude", "/run/claude.json"}, c.Argv)
			var started struct {
				Argv     []string
				Terminal bool
			}
			i := slices.IndexFunc(c.Files, func(f File) bool { return f.Name == tc.file })
			require.NoError(t, json.Unmarshal([]byte(c.Files[i].Data), &started))
			require.True(t, started.Terminal)
			argv = started.Argv
		}
		for i := range tc.argv {
			if tc.argv[i] == "NEW" {
				tc.argv[i] = c.Format.NewSessionID
			}
		}
		require.Equal(t, tc.argv, argv)
		p, err := NewParser(c.Format)
		require.NoError(t, err)
		result := p.Result(Exit{})
		require.Equal(t, fleet.TaskCompleted, result.Outcome.Status)
		if tc.session != "" {
			require.Equal(t, tc.session, result.Session)
		} else {
			require.Equal(t, c.Format.NewSessionID, ConversationID(result.Session))
		}
	}
	d, err := New(Options{Kind: "codex"})
	require.NoError(t, err)
	job.Role.AllowedTools = nil
	job.Session = id + " told 1 2"
	c, err := TerminalCommand(d, job)
	require.NoError(t, err)
	require.Equal(t, []string{"codex", "--sandbox", codexFullAccess, "--model", "m", "resume", id}, c.Argv)
	require.ErrorContains(t, CheckTerminal(d, false), "give the agent a task first")
	job.LostReason = "its file is gone"
	_, err = TerminalCommand(d, job)
	require.ErrorContains(t, err, "its file is gone")

	d, err = New(Options{Kind: "acp", Command: []string{"opencode", "acp"}})
	require.NoError(t, err)
	require.ErrorContains(t, CheckTerminal(d, false), "give the agent a task first")
	d, err = New(Options{Kind: "acp", Command: []string{"my-agent"}})
	require.NoError(t, err)
	require.ErrorContains(t, CheckTerminal(d, true), "my-agent has no program")
}
