package npm

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
)

// TestAgentsSteps lets each program use many kinds of tools, and compares the steps that Fleet reports with the golden files. If the
// program asks for permissions, a person allows one command, and a rule denies another command.
func TestAgentsSteps(t *testing.T) {
	for _, a := range agents {
		if a.manySteps == nil {
			continue
		}
		t.Run(a.name, func(t *testing.T) {
			a.role = maps.Clone(a.role)
			a.role["permissions"] = map[string]any{}
			if a.asksPermission {
				a.role["permissions"] = map[string]any{"deny": []string{"Bash(rm *)"}, "ask": []string{"Bash(git init *)"}}
				a.role["disallowed_tools"] = []string{"Bash(touch *)"}
			}
			c := newAgentFleet(t, a)
			c.create(t, "papi", "coder")
			for name, text := range a.files {
				path := filepath.Join(c.workDir(t, "papi"), name)
				require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
				require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			}
			first := c.runTask(t, "papi", "Look around.", "model: say Done")
			require.Equal(t, fleetv1.Task_completed, first.GetStatus(), first.GetReason())
			script := strings.Join(append(slices.Clone(a.manySteps), "model: later 529 say Done"), "\n")
			if tool := c.questionTool(t, "Look around."); tool != "" {
				script = strings.ReplaceAll(script, "ASK_USER", tool)
			}
			id := c.start(t, "papi", "Do many things.", script)
			c.waitForEvent(t, id, func(e *fleetv1.Event) bool {
				if e.GetType() == fleetv1.Event_task_question {
					c.answerAll(t, id)
				}
				return e.GetType() == fleetv1.Event_task_ended
			})
			task := c.wait(t, id)
			for _, r := range c.lastRequest(t, "Do many things.").Results() {
				t.Logf("a tool answered: %.300s", r.Text)
			}
			require.Equal(t, fleetv1.Task_completed, task.GetStatus(), task.GetReason())
			require.Equal(t, a.contextTokens, task.GetContextTokens())
			c.requireSteps(t, id, a.name)
			c.recordOutput(t, id, a.name)
		})
	}
}

// answerAll answers the open questions of the task. It allows all requests for permissions.
func (c *claudeFleet) answerAll(t *testing.T, id string) {
	t.Helper()
	r, err := c.api.ListQuestions(t.Context(), &fleetv1.ListQuestionsRequest{TaskId: id})
	require.NoError(t, err)
	for _, q := range r.GetQuestions() {
		c.answer(t, q, map[fleetv1.Question_Kind]string{fleetv1.Question_permission: "allow", fleetv1.Question_question: "tabs"}[q.GetKind()], "")
	}
}

// recordOutput writes the output of the task's run to the recordings of package driver, without details of this machine. Without
// -update it does nothing.
func (c *claudeFleet) recordOutput(t *testing.T, id, name string) {
	t.Helper()
	if !*update {
		return
	}
	output := read(t, filepath.Join(c.runDir(t, id), "output"))
	output = bytes.ReplaceAll(output, []byte(c.home)[1:], []byte("home/fleet"))
	for _, change := range machineDetails {
		output = change.pattern.ReplaceAll(output, []byte(change.replacement))
	}
	dir := filepath.Join(root, "internal/runner/driver/testdata/recorded")
	require.NoError(t, os.MkdirAll(dir, 0o750))
	require.NoError(t, os.WriteFile(filepath.Join(dir, name+".jsonl"), output, 0o600))
}

// machineDetails contains patterns for texts that differ between machines, and the replacements of these texts in recordings.
var machineDetails = []struct {
	pattern     *regexp.Regexp
	replacement string
}{
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "127.0.0.1:9911"},
	{regexp.MustCompile(`agents/[0-9a-f-]{36}`), "agents/papi"},
	{regexp.MustCompile(`-[0-9a-z-]*-fleet-npm-[0-9a-f]{8}-data-agents-[0-9a-f-]{36}`), "-home-fleet-data-agents-papi"},
	{regexp.MustCompile(`/[^" :]*/\.build/npm/`), "/opt/"},
}
