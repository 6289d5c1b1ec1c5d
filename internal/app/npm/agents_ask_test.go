package npm

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
)

// TestAgentsAsk lets each program with asksPermission ask for permissions. A person grants or denies them, or a rule denies
// them. Each program except Gemini also asks a question with Fleet's tool for questions.
func TestAgentsAsk(t *testing.T) {
	for _, a := range agents {
		if !a.asksPermission {
			continue
		}
		t.Run(a.name, func(t *testing.T) {
			a.role = maps.Clone(a.role)
			a.role["permissions"] = map[string]any{"deny": []string{"Bash(git push*)"}}
			c := newAgentFleet(t, a)
			// Each case has a new agent, because a denial may end a program's turn.
			for i, answer := range []string{"allow", "deny", "policy"} { // policy: a rule denies the command
				prompt, command := fmt.Sprintf("Ask %d.", i), "sh -c 'echo x >made-by-"+answer+"'"
				if answer == "policy" {
					command = "git push origin"
				}
				c.create(t, answer, "coder")
				id := c.start(t, answer, prompt, c.promptToRun(command), "model: say Done")
				if answer != "policy" {
					q := c.waitForQuestion(t, id, 0)
					require.Equal(t, fleetv1.Question_permission, q.GetKind())
					require.Contains(t, q.GetTool()+q.GetText()+q.GetInput().String(), command)
					agent, err := c.api.ShowAgent(t.Context(), &fleetv1.ShowAgentRequest{AgentName: answer})
					require.NoError(t, err)
					require.True(t, agent.GetAgent().GetWaiting())
					c.answer(t, q, answer, "")
				}
				task := c.wait(t, id)
				require.Equal(t, fleetv1.Task_completed, task.GetStatus(), task.GetReason())
				require.Equal(t, answer != "allow", task.GetDeniedCalls() > 0, "%s: %d denied calls", answer, task.GetDeniedCalls())
			}
			require.FileExists(t, filepath.Join(c.workDir(t, "allow"), "made-by-allow"))
			require.NoFileExists(t, filepath.Join(c.workDir(t, "deny"), "made-by-deny"))

			c.create(t, "papi", "coder")
			// Stop a run that waits for an answer.
			id := c.start(t, "papi", "Ask and be stopped.", c.promptToRun("sh -c 'echo x >never'"))
			c.waitForQuestion(t, id, 0)
			_, err := c.api.StopAgentTask(t.Context(), &fleetv1.StopAgentTaskRequest{AgentName: "papi"})
			require.NoError(t, err)
			require.Empty(t, c.processes("papi"))

			if a.name == "gemini" {
				return // version 0.61.0 of Gemini does not offer its model the tools of the client's servers
			}
			c.testQuestionTool(t, "Ask 0.")
		})
	}
}

// TestAgentsAskCodex lets Codex itself, which does not ask for permissions, ask a question.
func TestAgentsAskCodex(t *testing.T) {
	a := agents[slices.IndexFunc(agents, func(a agent) bool { return a.name == "codex" })]
	a.role = maps.Clone(a.role)
	a.role["permissions"] = map[string]any{}
	c := newAgentFleet(t, a)
	c.create(t, "papi", "coder")
	c.runTask(t, "papi", "Look around.", "model: say Done")
	c.testQuestionTool(t, "Look around.")
}

// questionTool returns the name of the tool for questions in the latest request with the prompt, or "" if there is none.
func (a *agentFleet) questionTool(t *testing.T, prompt string) string {
	t.Helper()
	tools := a.lastRequest(t, prompt).ToolNames()
	if i := slices.IndexFunc(tools, func(name string) bool { return strings.HasSuffix(name, "ask_user") }); i >= 0 {
		return tools[i]
	}
	return ""
}

// testQuestionTool lets the agent papi ask a question with its tool for questions. prompt is the prompt of an earlier task, in
// whose request the tool is found.
func (a *agentFleet) testQuestionTool(t *testing.T, prompt string) {
	t.Helper()
	tool := a.questionTool(t, prompt)
	require.NotEmpty(t, tool, "the tool for questions is missing")
	id := a.start(t, "papi", "Ask a person.", "model: tool "+tool+` {"question":"Tabs or spaces?","options":["tabs","spaces"]}`, "model: say Done")
	q := a.waitForQuestion(t, id, 0)
	require.Equal(t, "Tabs or spaces?", q.GetText())
	a.answer(t, q, "neither", "")
	task := a.wait(t, id)
	require.Equal(t, fleetv1.Task_completed, task.GetStatus(), task.GetReason())
	results := a.lastRequest(t, "Ask a person.").Results()
	require.Contains(t, results[len(results)-1].Text, "neither")
}
