package acp

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRules(t *testing.T) {
	r := Rules{Allow: []string{"Bash(echo *)", "edit", "mcp__tracker"}, Deny: []string{"Bash(rm *)"}, Ask: []string{"Write(*secret*)", "Bash(echo please*)"}}
	for _, tc := range []struct {
		name, tool, title, sort, input string
		allowed, decided               bool
	}{
		{"allowed", "Bash", "", "", `{"command":"echo a"}`, true, true},
		{"denied", "Bash", "", "", `{"command":"rm a"}`, false, true},
		{"denied in another command", "Bash", "", "", `{"command":"echo a; rm b"}`, false, true},
		{"asked in spite of allow", "Bash", "", "", `{"command":"echo please"}`, false, false},
		{"more than the rule allows", "Bash", "", "", `{"command":"echo $(make)"}`, false, false},
		{"no rule names it", "Read", "", "", `{"file_path":"/a"}`, false, false},
		{"a kind", "Write", "", "", `{"file_path":"/a"}`, true, true},
		{"asked by its path", "Write", "", "", `{"file_path":"/secret/a"}`, false, false},
		{"a tool of a server", "mcp__tracker__search", "", "", `{}`, true, true},
		{"a program of the protocol", "execute", "Run it", "execute", `{"command":"echo a"}`, true, true},
		{"denied by the title", "execute", "rm -r a", "execute", "", false, true},
		{"not allowed by the title", "execute", "echo a", "execute", "", false, false},
		{"a tool of a server over ACP", "tracker_search", "", "other", `{}`, true, true},
		{"a tool of a server as Codex names it", "mcp.tracker.search", "", "execute", `{}`, true, true},
		{"no input", "Bash", "", "", "", false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			allowed, decided, why := r.Decide(tc.tool, tc.title, tc.sort, []byte(tc.input))
			require.Equal(t, []bool{tc.allowed, tc.decided}, []bool{allowed, decided}, why)
			require.NotEmpty(t, why)
		})
	}
}
