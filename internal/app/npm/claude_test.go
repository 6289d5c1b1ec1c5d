package npm

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
)

// The model of the tests. Claude Code knows the price of pricedModel: 3 dollars per million input tokens, and 15 dollars per
// million output tokens. answerCost is the price in dollars of the token usage that each answer of the stub reports.
const (
	pricedModel = "claude-sonnet-4-5"
	answerCost  = 1000*3e-6 + 500*15e-6
)

// TestClaudeTask runs a task that uses tools. It checks the steps and the result, the requests to the model, and the effects of the tools.
func TestClaudeTask(t *testing.T) {
	c := newClaudeFleet(t, role{
		"name": "coder", "prompt": "You are the coder of this crew.", "model": pricedModel,
		"tools": []string{"Bash", "Write", "Read", "WebFetch"}, "allowed_tools": []string{"Write", "Bash(echo *)"}, "disallowed_tools": []string{"WebFetch"},
	})
	c.create(t, "papi", "coder")
	id := c.start(t, "papi", "--Make a file.",
		`model: tool Write {"file_path":"made.txt","content":"made by a tool"}`,
		`model: tool Bash {"command":"echo allowed"}`,
		`model: tool Bash {"command":"touch denied.txt"}`,
		"model: hang half-way",
	)

	// The task's steps are visible while it works.
	g := c.waitAtGate(t, "half-way")
	events := c.waitForEvent(t, id, func(e *fleetv1.Event) bool { return e.GetText() == "Bash: touch denied.txt" })
	require.Equal(t, []string{"Write: made.txt", "Bash: echo allowed", "Bash: touch denied.txt"}, eventTexts(events, fleetv1.Event_task_step))
	require.Equal(t, []string{"Now Write\n", "Now Bash\n", "Now Bash\n"}, eventTexts(events, fleetv1.Event_task_output))
	shown, err := c.api.ShowTask(t.Context(), &fleetv1.ShowTaskRequest{TaskId: id})
	require.NoError(t, err)
	require.Equal(t, fleetv1.Task_running, shown.GetTask().GetStatus())
	require.Contains(t, shown.GetTask().GetPreview(), "Now Bash")
	close(g.open)

	task := c.wait(t, id)
	require.Equal(t, fleetv1.Task_completed, task.GetStatus(), task.GetReason())
	require.Equal(t, "Went on", task.GetSummary())
	require.EqualValues(t, 0, task.GetExitCode())
	require.EqualValues(t, 4, task.GetTurns())
	require.InDelta(t, 4*answerCost, task.GetCostUsd(), 1e-9)

	// Check the requests to the model, and the effects of the tools.
	requests := c.requestsWith("--Make a file.")
	require.Len(t, requests, 4)
	q := requests[3]
	require.Equal(t, pricedModel, q.Model)
	require.Equal(t, "sk-stub", q.Header.Get("X-Api-Key"))
	require.Contains(t, q.System.text(), "You are the coder of this crew.")
	require.Contains(t, q.System.text(), "Keep the tests honest")
	require.Subset(t, q.toolNames(), []string{"Bash", "Read", "Write"})
	for _, tool := range []string{"Edit", "Task", "Agent", "WebFetch", "WebSearch"} {
		require.NotContains(t, q.toolNames(), tool)
	}
	results := q.results()
	require.Len(t, results, 3)
	require.Equal(t, []bool{false, false, true}, []bool{results[0].IsError, results[1].IsError, results[2].IsError})
	require.Contains(t, results[1].Content.text(), "allowed")
	require.Contains(t, results[2].Content.text(), "approval")
	work := c.workDir(t, "papi")
	require.Equal(t, "made by a tool", string(read(t, filepath.Join(work, "made.txt"))))
	require.NoFileExists(t, filepath.Join(work, "denied.txt"))
	require.Empty(t, c.processes("papi"))
}

// TestClaudeConversation checks that the tasks of an agent continue one conversation, also with another role, and that a lost conversation is replaced.
func TestClaudeConversation(t *testing.T) {
	c := newClaudeFleet(t, role{"name": "coder", "model": pricedModel, "prompt": "You write code.", "default": true}, role{"name": "manager", "model": pricedModel, "prompt": "You lead."})
	c.create(t, "papi", "coder")
	c.create(t, "mami", "coder")
	require.Equal(t, "Ducks", c.runTask(t, "papi", "Name the birds.", "model: say Ducks").GetSummary())

	second := c.runTask(t, "papi", "Count them.", "model: say Seven")
	require.Equal(t, "Seven", second.GetSummary())
	require.InDelta(t, answerCost, second.GetCostUsd(), 1e-9, "the cost must be of the task alone, not of the whole conversation")
	require.EqualValues(t, 1, second.GetTurns())
	q := c.requestsWith("Count them.")[0]
	require.Contains(t, q.conversationText(), "Name the birds.")
	require.Contains(t, q.conversationText(), "assistant: Ducks")

	c.runTask(t, "mami", "Greet.", "model: say Hello")
	require.NotContains(t, c.requestsWith("Greet.")[0].conversationText(), "Ducks", "each agent must have its own conversation")

	// With another role the conversation continues, and the agent is told its new role.
	_, err := c.api.RestartAgent(t.Context(), &fleetv1.RestartAgentRequest{AgentName: "papi", Role: "manager"})
	require.NoError(t, err)
	c.runTask(t, "papi", "Lead them.", "model: say This way")
	q = c.requestsWith("Lead them.")[0]
	require.Contains(t, q.conversationText(), "assistant: Seven")
	require.Contains(t, q.System.text()+q.conversationText(), "You lead.")
	c.runTask(t, "papi", "Rest.", "model: say Zzz")
	prompt, _ := c.requestsWith("Rest.")[0].prompt()
	require.NotContains(t, prompt, "You lead.", "the agent must be told its role only once")

	// Fleet detects that a conversation is lost. The next task starts a new conversation, and the agent is told about
	// the loss.
	lost, err := filepath.Glob(c.home.path("data", "agents", "*", "home", ".claude", "projects", "*"))
	require.NoError(t, err)
	require.NotEmpty(t, lost)
	for _, dir := range lost {
		require.NoError(t, os.RemoveAll(dir))
	}
	task := c.runTask(t, "papi", "Go on.", "model: say Where?")
	require.Equal(t, fleetv1.Task_completed, task.GetStatus(), task.GetReason())
	q = c.requestsWith("Go on.")[0]
	require.NotContains(t, q.conversationText(), "Seven")
	require.Contains(t, q.conversationText(), "could not be restored")
	c.runTask(t, "papi", "Go there.", "model: say Here")
	require.Contains(t, c.requestsWith("Go there.")[0].conversationText(), "assistant: Where?")
}

// TestClaudeStop ends tasks while the model thinks, while a tool runs, with their agent, and at their time limit. No process may be left.
func TestClaudeStop(t *testing.T) {
	c := newClaudeFleet(t, role{"name": "coder", "model": pricedModel, "allowed_tools": []string{"Bash"}})
	stop := func(t *testing.T, agent string) *fleetv1.Task {
		t.Helper()
		start := time.Now()
		r, err := c.api.StopAgentTask(t.Context(), &fleetv1.StopAgentTaskRequest{AgentName: agent})
		require.NoError(t, err)
		require.Equal(t, fleetv1.Task_stopped, r.GetTask().GetStatus())
		require.Equal(t, fleetv1.Agent_idle, r.GetAgentStatus())
		require.Empty(t, c.processes(agent), "a stopped task must have no processes")
		t.Logf("stopped in %s", time.Since(start).Round(time.Millisecond))
		return r.GetTask()
	}

	t.Run("while the model thinks", func(t *testing.T) {
		c.create(t, "papi", "coder")
		c.start(t, "papi", "Think hard.", "model: hang thought")
		g := c.waitAtGate(t, "thought")
		stop(t, "papi")
		waitClosed(t, g.left, "Claude Code must close its request to the model")
		require.Equal(t, "Yes", c.runTask(t, "papi", "Do you remember?", "model: say Yes").GetSummary())
		require.Contains(t, c.requestsWith("Do you remember?")[0].conversationText(), "Think hard.")
	})
	t.Run("while a tool runs", func(t *testing.T) {
		c.create(t, "mami", "coder")
		id := c.start(t, "mami", `model: tool Bash {"command":"trap '' TERM; echo $$ > pid; sleep 3600 & setsid sleep 3601 & wait"}`)
		c.waitForEvent(t, id, func(e *fleetv1.Event) bool { return e.GetType() == fleetv1.Event_task_step })
		require.Eventually(t, func() bool {
			n := 0
			for _, p := range c.processes("mami") {
				if strings.HasPrefix(p.command, "sleep 360") {
					n++
				}
			}
			return n == 2
		}, defaultTimeout, 10*time.Millisecond, "the tool does not run")
		require.InDelta(t, answerCost, stop(t, "mami").GetCostUsd(), 1e-9, "a stopped task must report its cost")
	})
	t.Run("an agent that is deleted", func(t *testing.T) {
		c.create(t, "nino", "coder")
		c.start(t, "nino", "model: hang deleted")
		c.waitAtGate(t, "deleted")
		_, err := c.api.DeleteAgent(t.Context(), &fleetv1.DeleteAgentRequest{AgentName: "nino"})
		require.NoError(t, err)
		require.Empty(t, c.processes("nino"))
	})
	t.Run("at its time limit", func(t *testing.T) {
		c.create(t, "nina", "coder")
		limit := int32(3)
		r, err := c.api.StartAgentTask(t.Context(), &fleetv1.StartAgentTaskRequest{AgentName: "nina", TaskDescription: "model: hang late", TimeoutSeconds: &limit})
		require.NoError(t, err)
		task := c.wait(t, r.GetTask().GetId())
		require.Equal(t, fleetv1.Task_failed, task.GetStatus())
		require.Contains(t, task.GetReason(), "time limit")
		require.Empty(t, c.processes("nina"))
	})
}

// TestClaudeCrashes checks a task whose program is killed, a task whose request the model refuses, and a task whose work continues in the background.
func TestClaudeCrashes(t *testing.T) {
	c := newClaudeFleet(t, role{"name": "coder", "model": pricedModel, "allowed_tools": []string{"Bash"}})
	c.create(t, "papi", "coder")
	id := c.start(t, "papi", "Live dangerously.", `model: tool Bash {"command":"sleep 3600","run_in_background":true}`, "model: hang killed")
	c.waitAtGate(t, "killed")
	require.NoError(t, syscall.Kill(c.claudePID(t, "papi"), syscall.SIGKILL))
	task := c.wait(t, id)
	require.Equal(t, fleetv1.Task_failed, task.GetStatus())
	require.Contains(t, task.GetReason(), "signal KILL")
	require.Empty(t, c.processes("papi"), "the children of the killed program must end too")

	// If the model refuses, the task fails with the model's message.
	task = c.runTask(t, "papi", "Ask for too much.", "model: refuse that is too much")
	require.Equal(t, fleetv1.Task_failed, task.GetStatus())
	require.Contains(t, task.GetReason(), "that is too much")

	// The task ends only after its work in the background, and its summary is the text after that work.
	task = c.runTask(t, "papi", "Work behind my back.", `model: tool Bash {"command":"sleep 1; echo hidden","run_in_background":true}`, "model: say Begun", "model: say Finished")
	require.Equal(t, fleetv1.Task_completed, task.GetStatus(), task.GetReason())
	require.Equal(t, "Finished", task.GetSummary())
	require.InDelta(t, 3*answerCost, task.GetCostUsd(), 1e-9)
	require.EqualValues(t, 3, task.GetTurns())
}

// TestClaudeWrongKey checks that a task with a wrong key fails before the test gives up waiting. Claude Code itself would repeat the request for
// minutes.
func TestClaudeWrongKey(t *testing.T) {
	c := newClaudeFleet(t, role{"name": "coder", "model": pricedModel})
	c.create(t, "papi", "coder")
	task := c.runTask(t, "papi", "Try.", "model: refuse 401 invalid x-api-key")
	require.Equal(t, fleetv1.Task_failed, task.GetStatus())
	require.Contains(t, task.GetReason(), "API key")
}

// TestClaudeOutlivesItsServer kills the server while Claude Code works. The same process must complete the task.
func TestClaudeOutlivesItsServer(t *testing.T) {
	c := newClaudeFleet(t, role{"name": "coder", "model": pricedModel, "allowed_tools": []string{"Bash"}})
	c.create(t, "papi", "coder")
	id := c.start(t, "papi", "Go on without me.", `model: tool Bash {"command":"echo once >> log"}`, "model: hang alone", "model: say Done")
	g := c.waitAtGate(t, "alone")
	claude := c.claudePID(t, "papi")
	c.kill(t)
	c.serve(t)
	require.Equal(t, claude, c.claudePID(t, "papi"))
	close(g.open)
	task := c.wait(t, id)
	require.Equal(t, fleetv1.Task_completed, task.GetStatus(), task.GetReason())
	require.InDelta(t, 2*answerCost, task.GetCostUsd(), 1e-9)
	require.Equal(t, "once\n", string(read(t, filepath.Join(c.workDir(t, "papi"), "log"))))
	require.Len(t, c.requestsWith("Go on without me."), 2, "the task must run once")
}

// TestClaudePrompts checks unusual prompts, and a report that is too long for a summary.
func TestClaudePrompts(t *testing.T) {
	c := newClaudeFleet(t, role{"name": "coder"})
	c.create(t, "papi", "coder")
	// The prompt is longer than an argument of a program may be, and not only ASCII.
	long := strings.Repeat("Größe zählt. ", 20_000)
	require.Equal(t, "Read it all", c.runTask(t, "papi", long, "model: say Read it all").GetSummary())
	prompt, _ := c.requestsWith("Größe")[0].prompt()
	require.Contains(t, prompt, strings.TrimSpace(long))
	// Text that looks like a path, a flag or a mention is passed on unchanged.
	for _, first := range []string{"/etc/hosts looks wrong.", "-p", "@nobody was here.", "# A heading"} {
		require.Equal(t, "Seen", c.runTask(t, "papi", first, "model: say Seen").GetSummary(), first)
		require.NotEmpty(t, c.requestsWith(first+"\n"), first)
	}
	// The payload contains the whole report, even if the report is too long for a summary.
	report := strings.TrimSpace(strings.Repeat("word ", 2000))
	task := c.runTask(t, "papi", "Report.", "model: say "+report)
	require.Equal(t, report, task.GetPayload())
	require.Less(t, len(task.GetSummary()), len(report))
}

// TestClaudeTools gives an agent the tools of an MCP server that needs a secret. The secret must not appear in other places.
func TestClaudeTools(t *testing.T) {
	const secret = "s3cret-of-the-test"
	installClaude(t) // may skip the test, before anything is built
	c := newClaudeFleet(t, role{"name": "coder", "allowed_tools": []string{"mcp__inner"}, "mcp_servers": map[string]any{"inner": map[string]any{
		"command": program(t), "args": []string{"mcp", "--embedded", "--data", "data-of-inner"}, "env": map[string]string{"SERVICE_TOKEN": secret},
	}}})
	c.create(t, "papi", "coder")
	id := c.start(t, "papi", "Use it.", `model: tool mcp__inner__list_agent_projects {}`, "model: hang used")
	g := c.waitAtGate(t, "used")

	path := filepath.Join(c.runDir(t, id), "mcp.json")
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	require.Contains(t, string(read(t, path)), secret)
	for _, p := range c.processes("papi") {
		require.NotContains(t, p.command, secret)
	}
	close(g.open)

	task := c.wait(t, id)
	require.Equal(t, fleetv1.Task_completed, task.GetStatus(), task.GetReason())
	results := c.requestsWith("Use it.")[1].results()
	require.False(t, results[0].IsError, results[0].Content.text())
	require.Contains(t, results[0].Content.text(), `"shell"`)
	require.Contains(t, eventTexts(c.waitForEvent(t, id, func(e *fleetv1.Event) bool { return e.GetType() == fleetv1.Event_task_ended }), fleetv1.Event_task_step), "inner.list_agent_projects")
	require.NoFileExists(t, path, "the file with the secrets must be removed at the end of the run")
	require.NoError(t, filepath.WalkDir(string(c.home), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && filepath.Base(path) != "fleet.yaml" {
			require.NotContains(t, string(read(t, path)), secret, path)
		}
		return err
	}))
	for _, line := range c.logLines() {
		require.NotContains(t, line, secret)
	}
}
