package driver_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/runner/driver"
)

// TestPromptsAreNotArguments checks that no driver puts a task, a role or a specification into the arguments of a
// program, because other programs can read the arguments. Only a template of the driver "command" can put them there.
func TestPromptsAreNotArguments(t *testing.T) {
	t.Parallel()
	all := map[string]driver.Options{
		"shell":   {Kind: "shell"},
		"command": {Kind: "command", Command: []string{"agent", "{{.PromptFile}}", "{{.BriefFile}}"}, Stdin: "{{.Brief}}"},
	}
	for _, known := range driver.CLIs() {
		all[known.Name] = known.Options
	}
	for name, options := range all {
		d, err := driver.New(options)
		require.NoError(t, err)
		for _, session := range []string{"", "s-1 told"} {
			for _, replaces := range []bool{false, true} {
				c, err := d.Command(driver.Job{
					TaskID: "t", Agent: "papi", Spec: "secret specification", Prompt: "secret task", RunDir: "/run", Session: session, LostReason: "secret reason",
					Feedback: "secret feedback", ClientCommand: []string{"fleet", "client"}, AskCommand: []string{"fleet", "ask"},
					Role: driver.Role{Name: "coder", Prompt: "secret role", ReplacesSystemPrompt: replaces, Permissions: &driver.Permissions{}},
				})
				require.NoError(t, err, name)
				require.NotContains(t, strings.Join(c.Argv, " "), "secret", name)
			}
		}
	}
}
