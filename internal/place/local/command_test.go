package local_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/local"
	"fleet/internal/runner/driver"
)

// TestCommand checks the templates and output formats of the driver command.
func TestCommand(t *testing.T) {
	t.Parallel()
	roles := []local.Role{{Name: "coder", Prompt: "You write code.", Model: "small"}}
	cat := func(name, output string, fields driver.Fields) local.Project {
		return local.Project{Name: name, Driver: "command", Command: []string{"cat"}, Stdin: "{{.Prompt}}", Output: output, Fields: fields, Roles: roles}
	}
	projects := []local.Project{
		{Name: "words", Driver: "command", Command: []string{"printf", "%s\n", "{{.Agent}} {{.Project}} {{.Role}} {{.Model}}", "{{.Prompt}}", "{{.Spec}}", "{{.RolePrompt}}"}, Roles: roles},
		{Name: "files", Driver: "command", Command: []string{"cat", "{{.PromptFile}}", "{{.SpecFile}}", "{{.RoleFile}}"}, Roles: roles},
		{Name: "brief", Driver: "command", Command: []string{"cat", "{{.BriefFile}}"}, Roles: roles},
		{Name: "argument", Driver: "command", Command: []string{"echo", "{{.Prompt}}"}, Roles: roles},
		cat("stdin", "text", driver.Fields{}),
		cat("pieces", "jsonl", driver.Fields{
			Text: "[type=message,role=assistant].content", Delta: true, Step: "[type=tool_use].tool_name", Detail: "parameters", Error: "[type=error].message",
		}),
		cat("costs", "jsonl", driver.Fields{
			Text: "[type=text].part.text", Step: "[type=tool_use].part.tool", Detail: "part.state.title", Cost: "[type=step_finish].part.cost",
		}),
	}
	w := newTestPlace(t, func(c *local.Config) { c.Projects = projects })
	for _, tc := range []struct{ project, prompt, output, summary string }{
		{"words", "do $(it); `now`\n\"and\" 'well' {{.Spec}}", "papi words coder small\ndo $(it); `now`\n\"and\" 'well' {{.Spec}}\nKeep the tests green.\nYou write code.\n", "You write code."},
		{"files", "do it\n", "do it\nKeep the tests green.You write code.", "Keep the tests green.You write code."},
		{"brief", "do it", "You write code.\n\nYou are the agent \"papi\". What you are there for:\n\nKeep the tests green.\n\nYour task now:\n\ndo it", "do it"},
		{"stdin", "one\ntwo", "one\ntwo", "two"},
		{
			"pieces", `{"type":"init","session_id":"1"}
{"type":"message","role":"user","content":"hi"}
{"type":"message","role":"assistant","content":"Let me ","delta":true}
{"type":"message","role":"assistant","content":"see.","delta":true}
{"type":"tool_use","tool_name":"read_file","tool_id":"1","parameters":{"path":"x"}}
{"type":"message","role":"assistant","content":"It ","delta":true}
{"type":"message","role":"assistant","content":"works.","delta":true}
{"type":"result","status":"success"}`, "Let me see.<read_file: {\"path\":\"x\"}>\nIt works.", "It works.",
		},
		{
			"costs", `{"type":"step_start","part":{}}
{"type":"tool_use","part":{"tool":"bash","state":{"status":"completed","title":"go vet"}}}
{"type":"step_finish","part":{"cost":0.01}}
{"type":"text","part":{"text":"Done."}}
{"type":"step_finish","part":{"cost":0.02}}
plain words`, "<bash: go vet>\nDone.\nplain words\n", "Done.",
		},
	} {
		t.Run(tc.project, func(t *testing.T) {
			t.Parallel()
			output, o := w.runTask(w.provisionIn(tc.project), tc.prompt)
			require.Equal(t, tc.output, output)
			require.Equal(t, tc.summary, o.Summary)
			require.Equal(t, fleet.TaskCompleted, o.Status, o.Reason)
			require.Empty(t, o.Reason)
			if tc.project == "costs" {
				require.InDelta(t, 0.03, o.CostUSD, 1e-9)
			}
		})
	}
	t.Run("too long for an argument", func(t *testing.T) {
		t.Parallel()
		a := w.provisionIn("argument")
		r := newRun(strings.Repeat("x", driver.MaxArgument+1))
		err := w.Connect(a).Dispatch(w.ctx, r)
		requireError(t, err, fleet.ReasonInvalidArgument, "{{.PromptFile}}")
		_, err = w.Connect(a).Follow(w.ctx, r, "", nil)
		requireReason(t, err, fleet.ReasonTaskNotFound)
		w.mustRun(a, strings.Repeat("x", driver.MaxArgument))
		requireReason(t, w.Connect(a).Dispatch(w.ctx, newRun("a\x00b")), fleet.ReasonInvalidArgument)
	})
}

// TestProgramCannotStart dispatches runs whose program cannot start. Such a run must not be recorded as dispatched.
func TestProgramCannotStart(t *testing.T) {
	t.Parallel()
	w, a := newShellPlace(t)
	r := newRun("#!/no/such/interpreter\n")
	for range 2 {
		err := w.Connect(a).Dispatch(w.ctx, r)
		requireError(t, err, fleet.ReasonProvisioningFailed, "no such file or directory")
		_, err = w.Connect(a).Follow(w.ctx, r, "", nil)
		requireReason(t, err, fleet.ReasonTaskNotFound)
	}
	require.Equal(t, "next", w.mustRun(a, "echo next"))

	broken := newTestPlace(t, func(c *local.Config) { c.Program = "/no/such/shim" })
	requireReason(t, broken.Connect(broken.provisionIn("shell")).Dispatch(broken.ctx, newRun("true")), fleet.ReasonBackendUnavailable)

	silent := newTestPlace(t, func(c *local.Config) { c.Program = "false" })
	b := silent.provisionIn("shell")
	never := newRun("true")
	err := silent.Connect(b).Dispatch(silent.ctx, never)
	requireError(t, err, fleet.ReasonBackendUnavailable, "ended at once")
	_, err = silent.Connect(b).Follow(silent.ctx, never, "", nil)
	requireReason(t, err, fleet.ReasonTaskNotFound)
}

// TestPromptFile checks that the file with the prompt of a role is read for each task.
func TestPromptFile(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/role.md"
	require.NoError(t, os.WriteFile(path, []byte("Be quick."), 0o600))
	w := newTestPlace(t, func(c *local.Config) {
		c.Projects = []local.Project{{Name: "shell", Roles: []local.Role{{Name: "Coder", PromptFile: path}}}}
	})
	a := w.provisionIn("shell") // the agent's role is "coder"
	require.Equal(t, "Be quick.", w.mustRun(a, "cat $FLEET_ROLE_FILE"))
	require.NoError(t, os.WriteFile(path, []byte("Be thorough."), 0o600))
	require.Equal(t, "Be thorough.", w.mustRun(a, "cat $FLEET_ROLE_FILE"))
	require.NoError(t, os.Remove(path))
	requireError(t, w.Connect(a).Dispatch(w.ctx, newRun("true")), fleet.ReasonProvisioningFailed, path)
}
