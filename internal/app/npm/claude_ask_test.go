package npm

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
)

// waitForQuestion waits until the task has asked more than before questions, and returns the first question after these.
func (c *claudeFleet) waitForQuestion(t *testing.T, id string, before int) *fleetv1.Question {
	t.Helper()
	var all []*fleetv1.Question
	c.waitForEvent(t, id, func(e *fleetv1.Event) bool {
		if e.GetType() != fleetv1.Event_task_question && e.GetType() != fleetv1.Event_task_answer {
			return false
		}
		r, err := c.api.ListQuestions(t.Context(), &fleetv1.ListQuestionsRequest{TaskId: id, IncludeAnswered: true})
		require.NoError(t, err)
		all = r.GetQuestions()
		return len(all) > before
	})
	return all[len(all)-1-before] // newest first
}

// answer answers the question, and requires that the waiting agent has received the answer.
func (c *claudeFleet) answer(t *testing.T, q *fleetv1.Question, answer, message string) {
	t.Helper()
	r, err := c.api.AnswerQuestion(t.Context(), &fleetv1.AnswerQuestionRequest{QuestionId: q.GetId(), Answer: answer, Message: message})
	require.NoError(t, err)
	require.Equal(t, "The agent has the answer", r.GetMessage())
}

// TestClaudeAsks lets Claude Code ask for permissions and for an answer. People or the role's rules answer, or nobody does.
func TestClaudeAsks(t *testing.T) {
	c := newClaudeFleet(t,
		role{"name": "coder", "model": pricedModel, "default": true, "permissions": map[string]any{
			"allow": []string{"Bash(mkdir *)", "Write"}, "deny": []string{"Bash(rm *)"}, "ask": []string{"Write(*secret*)"},
		}},
		role{"name": "hasty", "model": pricedModel, "permissions": map[string]any{"timeout": "1s"}},
		role{"name": "silent", "model": pricedModel},
	)
	c.create(t, "papi", "coder")
	id := c.start(t, "papi", "Ask before you act.",
		`model: tool Bash {"command":"touch allowed.txt"}`,
		`model: tool Bash {"command":"touch denied.txt"}`,
		`model: tool Bash {"command":"mkdir free"}`,
		`model: tool Bash {"command":"rm -r free"}`,
		`model: tool mcp__fleet-ask__ask_user {"question":"Tabs or spaces?","options":["tabs","spaces"]}`,
		`model: tool AskUserQuestion {"questions":[{"question":"Which colour?","header":"Colour","multiSelect":false,"options":[{"label":"red","description":"warm"},{"label":"blue","description":"cold"}]}]}`,
		"model: say Done",
	)
	q := c.waitForQuestion(t, id, 0)
	require.Equal(t, fleetv1.Question_permission, q.GetKind())
	require.Equal(t, "Bash", q.GetTool())
	require.Equal(t, "touch allowed.txt", q.GetInput().GetFields()["command"].GetStringValue())
	agent, err := c.api.ShowAgent(t.Context(), &fleetv1.ShowAgentRequest{AgentName: "papi"})
	require.NoError(t, err)
	require.True(t, agent.GetAgent().GetWaiting())
	require.Equal(t, fleetv1.Agent_busy, agent.GetAgent().GetStatus())
	c.answer(t, q, "allow", "")
	c.answer(t, c.waitForQuestion(t, id, 1), "deny", "keep it \"clean\"")
	allowed := c.waitForQuestion(t, id, 2)
	require.Equal(t, []string{"allow", "policy"}, []string{allowed.GetAnswer(), allowed.GetAnsweredBy()})
	q = c.waitForQuestion(t, id, 3) // Claude Code itself denies rm
	require.Equal(t, "Tabs or spaces?", q.GetText())
	require.Equal(t, []string{"tabs", "spaces"}, q.GetOptions())
	c.answer(t, q, "neither: ✓", "")
	q = c.waitForQuestion(t, id, 4) // asked with Claude Code's own tool
	require.Equal(t, "Which colour?\n- red: warm\n- blue: cold", q.GetText())
	require.Equal(t, []string{"red", "blue"}, q.GetOptions())
	c.answer(t, q, "blue", "")
	task := c.wait(t, id)
	require.Equal(t, fleetv1.Task_completed, task.GetStatus(), task.GetReason())
	require.Equal(t, "Done", task.GetSummary())
	results := c.requestsWith("Ask before you act.")[6].results()
	require.Len(t, results, 6)
	for i, failed := range []bool{false, true, false, true, false, false} {
		require.Equal(t, failed, results[i].IsError, "%d: %s", i, results[i].Content.text())
	}
	require.Contains(t, results[1].Content.text(), `keep it "clean"`)
	require.Contains(t, results[3].Content.text(), "rm -r free")
	require.Contains(t, results[4].Content.text(), "neither: ✓")
	require.Contains(t, results[5].Content.text(), "blue")
	work := c.workDir(t, "papi")
	require.FileExists(t, filepath.Join(work, "allowed.txt"))
	require.NoFileExists(t, filepath.Join(work, "denied.txt"))
	require.DirExists(t, filepath.Join(work, "free"))
	require.Contains(t, c.requestsWith("Ask before you act.")[0].toolNames(), "mcp__fleet-ask__ask_user")

	// Nobody answers in time.
	c.create(t, "mami", "hasty")
	task = c.runTask(t, "mami", "Hurry.",
		`model: tool Bash {"command":"touch late.txt"}`, `model: tool mcp__fleet-ask__ask_user {"question":"Anybody?"}`, "model: say Alone")
	require.Equal(t, "Alone", task.GetSummary(), task.GetReason())
	results = c.requestsWith("Hurry.")[2].results()
	require.True(t, results[0].IsError)
	require.Contains(t, results[0].Content.text(), "nobody answered in time")
	require.Contains(t, results[1].Content.text(), "Nobody answered in time")
	require.NoFileExists(t, filepath.Join(c.workDir(t, "mami"), "late.txt"))

	// A task that ends withdraws its question, and leaves no process.
	id = c.start(t, "papi", "Wait.", `model: tool Bash {"command":"touch never.txt"}`)
	q = c.waitForQuestion(t, id, 0)
	_, err = c.api.StopAgentTask(t.Context(), &fleetv1.StopAgentTaskRequest{AgentName: "papi"})
	require.NoError(t, err)
	require.Empty(t, c.processes("papi"))
	_, err = c.api.AnswerQuestion(t.Context(), &fleetv1.AnswerQuestionRequest{QuestionId: q.GetId(), Answer: "allow"})
	require.ErrorContains(t, err, "no longer waits")

	// An agent whose role has no permissions cannot ask.
	c.create(t, "nino", "silent")
	task = c.runTask(t, "nino", "Try.", `model: tool Bash {"command":"touch silent.txt"}`, "model: say Denied")
	require.Equal(t, "Denied", task.GetSummary(), task.GetReason())
	require.True(t, c.requestsWith("Try.")[1].results()[0].IsError)
	require.NotContains(t, c.requestsWith("Try.")[0].toolNames(), "mcp__fleet-ask__ask_user")
}

// TestClaudeRemembers allows a command once, for a task and for the agent, with the rules that Claude Code suggests.
func TestClaudeRemembers(t *testing.T) {
	c := newClaudeFleet(t, role{"name": "coder", "model": pricedModel, "default": true, "permissions": map[string]any{}})
	c.create(t, "papi", "coder")
	touch := func(name string) string { return `model: tool Bash {"command":"touch a` + name + `"}` }
	id := c.start(t, "papi", "First task.", touch(""), touch(" b"), touch(" c"), touch(" d"), "model: say Done")
	remember := func(q *fleetv1.Question, how fleetv1.Question_Remember) {
		t.Helper()
		require.Equal(t, []string{"Bash(touch a *)"}, q.GetRules(), "%v", q)
		_, err := c.api.AnswerQuestion(t.Context(), &fleetv1.AnswerQuestionRequest{QuestionId: q.GetId(), Answer: "allow", Remember: how})
		require.NoError(t, err)
	}
	remember(c.waitForQuestion(t, id, 0), fleetv1.Question_once)
	remember(c.waitForQuestion(t, id, 1), fleetv1.Question_task)
	require.Equal(t, "policy", c.waitForQuestion(t, id, 2).GetAnsweredBy())
	require.Equal(t, "policy", c.waitForQuestion(t, id, 3).GetAnsweredBy())
	require.Equal(t, fleetv1.Task_completed, c.wait(t, id).GetStatus())

	id = c.start(t, "papi", "Second task.", touch(""), "model: say Done")
	remember(c.waitForQuestion(t, id, 0), fleetv1.Question_agent)
	require.Equal(t, fleetv1.Task_completed, c.wait(t, id).GetStatus())
	id = c.start(t, "papi", "Third task.", touch(" f"), "model: say Done")
	require.Equal(t, "policy", c.waitForQuestion(t, id, 0).GetAnsweredBy())
	require.Equal(t, fleetv1.Task_completed, c.wait(t, id).GetStatus())

	shown, err := c.api.ShowAgent(t.Context(), &fleetv1.ShowAgentRequest{AgentName: "papi"})
	require.NoError(t, err)
	require.Len(t, shown.GetRules(), 1)
	_, err = c.api.RemoveAgentRule(t.Context(), &fleetv1.RemoveAgentRuleRequest{AgentName: "papi", Rule: shown.GetRules()[0].GetRule()})
	require.NoError(t, err)
	id = c.start(t, "papi", "Fourth task.", touch(""), "model: say Done")
	c.answer(t, c.waitForQuestion(t, id, 0), "deny", "no")
	require.Equal(t, fleetv1.Task_completed, c.wait(t, id).GetStatus())
}

// TestClaudeAsksAcrossServers kills the server while a question waits, and answers it through the next server.
func TestClaudeAsksAcrossServers(t *testing.T) {
	c := newClaudeFleet(t, role{"name": "coder", "model": pricedModel, "permissions": map[string]any{}})
	c.create(t, "papi", "coder")
	id := c.start(t, "papi", "Ask twice.", `model: tool Bash {"command":"touch one.txt"}`, "model: say Done")
	q := c.waitForQuestion(t, id, 0)
	c.kill(t)
	c.serve(t)
	// The killed server may still hold the lease for a moment. The answer is stored until the lease expires.
	_, err := c.api.AnswerQuestion(t.Context(), &fleetv1.AnswerQuestionRequest{QuestionId: q.GetId(), Answer: "allow"})
	require.NoError(t, err)
	task := c.wait(t, id)
	require.Equal(t, fleetv1.Task_completed, task.GetStatus(), task.GetReason())
	require.FileExists(t, filepath.Join(c.workDir(t, "papi"), "one.txt"))
}
