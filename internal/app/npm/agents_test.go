package npm

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"

	fleetv1 "fleet/gen/fleet/v1"
	stub "fleet/internal/place/placetest/model"
)

// agent describes an agent program that Fleet drives.
type agent struct {
	name           string
	packages       string // the directory in testdata/npm with the program's packages
	driver         string
	command        []string                           // starts the program, which is in the packages; URL in an argument stands for the URL of the model
	env            func(url string) map[string]string // the environment for a model at the URL
	role           role
	runPrompt      string            // a prompt line that makes the program run a command; %s is the command in JSON
	editPrompt     string            // a prompt line that makes the program create the file made.txt
	wantSteps      []string          // texts that the steps for runs and edits must contain
	failureCodes   map[string]string // reason codes of failed tasks, by the answer of the model's API
	manySteps      []string          // prompt lines for steps of many kinds; ASK_USER is the tool for questions
	files          map[string]string // files in the agent's directory, for manySteps
	retryAnswer    string            // the key in failureCodes for which the program shows that it retries the request
	contextTokens  int32             // tokens in the conversation after manySteps; 0 if the program does not report them
	canAsk         bool              // people can answer the program's requests for permissions
	asksPermission bool              // the program asks before it runs a command, so a role can allow and deny commands
	reportsCost    bool              // the program reports the cost of a run
	processSuffix  string            // a text at the end of the program's command line, or before a space in it
}

// agentFleet is a fleet whose agents run one program.
type agentFleet struct {
	*claudeFleet
	agent
	stub *stub.Server
}

// newAgentFleet starts a fleet for the program. It skips the test unless TEST_AGENTS is set.
func newAgentFleet(t *testing.T, program agent) *agentFleet {
	t.Helper()
	skipUnlessSet(t, "TEST_AGENTS", "test-agents", "the programs that Fleet drives, 2.3 GB")
	bin := filepath.Join(install(t, program.packages), "node_modules", ".bin")
	path := bin + ":" + os.Getenv("PATH")
	if program.packages == "claude" { // Claude Code contains its own Node
		path = os.Getenv("PATH")
	}
	a := &agentFleet{claudeFleet: &claudeFleet{home: newHome(t)}, agent: program, stub: stub.New(t)}
	env := program.env(a.stub.URL)
	env["PATH"] = path
	command := slices.Clone(program.command)
	command[0] = filepath.Join(bin, command[0])
	for i := range command {
		command[i] = strings.ReplaceAll(command[i], "URL", a.stub.URL)
	}
	a.home.writeYAML(t, "fleet.yaml", map[string]any{"local": map[string]any{"sandbox": "landlock", "projects": []any{map[string]any{
		"name": "code", "driver": program.driver, "command": command, "env": env, "roles": []role{program.role, askerRole(program.role)},
	}}}})
	a.serve(t)
	return a
}

// askerRole returns a copy of the role, in which people answer requests to run git init.
func askerRole(r role) role {
	r = maps.Clone(r)
	r["name"], r["permissions"] = "asker", map[string]any{"ask": []string{"Bash(git init *)"}, "timeout": "5m"}
	delete(r, "default")
	return r
}

// waitAtGate waits until the model hangs at the gate.
func (a *agentFleet) waitAtGate(t *testing.T, gate string) *stub.Gate {
	t.Helper()
	g := a.stub.Gate(gate)
	waitClosed(t, g.Arrived(), "no request reached the gate "+gate)
	return g
}

// promptToRun returns a prompt line that makes the program run the command.
func (a *agentFleet) promptToRun(command string) string {
	return fmt.Sprintf(a.runPrompt, fmt.Sprintf("%q", command))
}

// lastRequest returns the latest request to the model whose prompt contains the text.
func (a *agentFleet) lastRequest(t *testing.T, text string) stub.Request {
	t.Helper()
	requests := a.stub.RequestsWith(text)
	require.NotEmpty(t, requests, "the model must receive a request whose prompt contains %q", text)
	return requests[len(requests)-1]
}

// TestAgents runs each program that Fleet drives. Each program is confined, and has its own Fleet server.
func TestAgents(t *testing.T) {
	for _, a := range agents {
		t.Run(a.name, func(t *testing.T) {
			c := newAgentFleet(t, a)
			c.create(t, "papi", "coder")
			for _, step := range []func(*testing.T){c.testTask, c.testOutput, c.testQuestions, c.testConversation, c.testMessage, c.testServerKilled, c.testStop, c.testProgramKilled, c.testRequestRefused, c.testLostConversation} {
				step(t) // all steps are in one test, because the servers stop when their test ends
			}
		})
	}
}

// testTask runs a task that uses tools, and checks its result, steps, usage and effects. It then checks that calls without a matching rule are
// denied, if the program asks for permissions.
func (a *agentFleet) testTask(t *testing.T) {
	prompt := []string{"--Name the birds.", a.promptToRun("echo allowed"), a.editPrompt}
	id := a.start(t, "papi", append(prompt, "model: say Ducks")...)
	task := a.wait(t, id)
	events := a.waitForEvent(t, id, func(e *fleetv1.Event) bool { return e.GetType() == fleetv1.Event_task_ended })
	steps := eventTexts(events, fleetv1.Event_task_step)
	t.Logf("%s %s, steps: %q", task.GetStatus(), task.GetReason(), steps)
	for _, r := range a.lastRequest(t, "--Name the birds.").Results() {
		t.Logf("a tool answered: %.300s", r.Text)
	}
	t.Logf("usage %v, cost %v, turns %d", task.GetUsage(), task.GetCostUsd(), task.GetTurns())
	require.Equal(t, fleetv1.Task_completed, task.GetStatus(), task.GetReason())
	require.Contains(t, task.GetSummary(), "Ducks")
	require.NotContains(t, task.GetSummary(), "Now ", "the summary must be only the last text")
	require.EqualValues(t, 0, task.GetExitCode())
	for _, want := range a.wantSteps {
		require.True(t, slices.ContainsFunc(steps, func(s string) bool { return strings.Contains(s, want) }), "%q is not in %q", want, steps)
	}
	work := a.workDir(t, "papi")
	require.Equal(t, "made by a tool\n", string(read(t, filepath.Join(work, "made.txt"))))
	q := a.lastRequest(t, "--Name the birds.")
	require.Contains(t, q.System+q.Transcript(), "You are the coder of this crew.")
	require.Contains(t, q.System+q.Transcript(), "Keep the tests honest")
	require.Contains(t, q.Results()[0].Text, "allowed")
	require.Positive(t, task.GetUsage().GetInputTokens())
	require.Positive(t, task.GetUsage().GetOutputTokens())
	require.EqualValues(t, len(prompt)-1, task.GetUsage().GetToolCalls())
	if a.reportsCost {
		require.Positive(t, task.GetCostUsd())
	}
	require.Empty(t, a.processes("papi"))
	if !a.asksPermission {
		return
	}

	// Some programs end their turn after a denied call.
	id = a.start(t, "papi", "Try this.", a.promptToRun("git init denied"), "model: say Refused")
	task = a.wait(t, id)
	events = a.waitForEvent(t, id, func(e *fleetv1.Event) bool { return e.GetType() == fleetv1.Event_task_ended })
	steps = eventTexts(events, fleetv1.Event_task_step)
	t.Logf("denied: %s %s, steps: %q, %q", task.GetStatus(), task.GetReason(), steps, task.GetSummary())
	require.NoDirExists(t, filepath.Join(work, "denied"))
	require.Empty(t, task.GetConversationLost())
	require.Contains(t, a.lastRequest(t, "Try this.").Transcript(), "Name the birds.")
	require.True(t, slices.ContainsFunc(steps, func(s string) bool { return strings.HasPrefix(s, "denied: ") }), "%q", steps)
}

// testOutput runs tasks with an output schema. Claude Code has a tool for the output, which TestClaudeOutput uses.
func (a *agentFleet) testOutput(t *testing.T) {
	if a.driver == "claude" {
		return
	}
	schema, err := structpb.NewStruct(map[string]any{
		"type": "object", "properties": map[string]any{"n": map[string]any{"type": "integer"}}, "required": []any{"n"}, "additionalProperties": false,
	})
	require.NoError(t, err)
	for answer, code := range map[string]string{`{"n":3}`: "", `{"n":"three"}`: "OUTPUT_INVALID"} {
		r, err := a.api.StartAgentTask(t.Context(), &fleetv1.StartAgentTaskRequest{AgentName: "papi", TaskDescription: "Count.\nmodel: say " + answer, OutputSchema: schema})
		require.NoError(t, err)
		task := a.wait(t, r.GetTask().GetId())
		require.Equal(t, code, task.GetReasonCode(), task.GetReason())
		require.Equal(t, code == "", task.GetOutput() != nil)
	}
}

// testQuestions checks that a person's answers allow and deny the commands of an agent. It skips programs without canAsk.
func (a *agentFleet) testQuestions(t *testing.T) {
	if !a.canAsk {
		return
	}
	a.create(t, "nina", "asker")
	for answer, name := range map[string]string{"allow": "allowed", "deny": "denied"} {
		id := a.start(t, "nina", "Make a repository.", a.promptToRun("git init "+name), "model: say Made")
		a.waitForEvent(t, id, func(e *fleetv1.Event) bool { return e.GetType() == fleetv1.Event_task_question })
		_, err := a.api.AnswerQuestion(t.Context(), &fleetv1.AnswerQuestionRequest{QuestionId: id, Answer: answer})
		require.NoError(t, err)
		task := a.wait(t, id)
		require.Equal(t, fleetv1.Task_completed, task.GetStatus(), task.GetReason())
	}
	require.DirExists(t, filepath.Join(a.workDir(t, "nina"), "allowed"))
	require.NoDirExists(t, filepath.Join(a.workDir(t, "nina"), "denied"))
}

// requireRemembered fails the test if the task has lost its conversation, or if the latest request with its prompt lacks the text of an earlier task.
func (a *agentFleet) requireRemembered(t *testing.T, task *fleetv1.TaskDetail, prompt, text string) {
	t.Helper()
	require.Empty(t, task.GetConversationLost())
	require.Contains(t, a.lastRequest(t, prompt).Transcript(), text)
}

func (a *agentFleet) testConversation(t *testing.T) {
	task := a.runTask(t, "papi", "Count them.", "model: say Seven")
	require.Equal(t, fleetv1.Task_completed, task.GetStatus(), task.GetReason())
	require.Contains(t, task.GetSummary(), "Seven")
	a.requireRemembered(t, task, "Count them.", "Name the birds.")
	a.requireRemembered(t, task, "Count them.", "Ducks")
	require.LessOrEqual(t, task.GetUsage().GetInputTokens(), int32(2*stub.InputTokens), "the usage must be of the task alone, not of the whole conversation")

	// Another agent has its own conversation.
	a.create(t, "mami", "coder")
	a.runTask(t, "mami", "Greet.", "model: say Hello")
	require.NotContains(t, a.lastRequest(t, "Greet.").Transcript(), "Ducks")
}

// testMessage sends a message to a busy agent. Codex refuses such messages.
func (a *agentFleet) testMessage(t *testing.T) {
	id := a.start(t, "papi", "Work on.", "model: hang busy")
	g := a.waitAtGate(t, "busy")
	_, err := a.api.SendTaskMessage(t.Context(), &fleetv1.SendTaskMessageRequest{AgentName: "papi", Message: "Greet Bob.\nmodel: say Hi Bob"})
	g.Open()
	if a.driver == "codex" {
		require.Error(t, err)
		a.wait(t, id)
		return
	}
	require.NoError(t, err)
	task := a.wait(t, id)
	require.Equal(t, fleetv1.Task_completed, task.GetStatus(), task.GetReason())
	require.Contains(t, task.GetSummary(), "Hi Bob")
	require.True(t, slices.ContainsFunc(a.stub.RequestsWith("Greet Bob."), func(r stub.Request) bool { return strings.Contains(r.Transcript(), "Went on") }),
		"the message must be in the same conversation")
}

func (a *agentFleet) testServerKilled(t *testing.T) {
	id := a.start(t, "papi", "Go on without me.", a.promptToRun("echo once"), "model: hang alone", "model: say Done")
	g := a.waitAtGate(t, "alone")
	a.kill(t)
	a.serve(t)
	g.Open()
	task := a.wait(t, id)
	require.Equal(t, fleetv1.Task_completed, task.GetStatus(), task.GetReason())
	count := 0
	for _, q := range a.stub.RequestsWith("Go on without me.") {
		if len(q.Tools) > 0 { // programs also make small requests without tools, for example for titles
			count++
		}
	}
	require.Equal(t, 2, count, "the task must run once")
	task = a.runTask(t, "papi", "Do you remember?", "model: say Yes")
	require.Contains(t, task.GetSummary(), "Yes")
	a.requireRemembered(t, task, "Do you remember?", "Name the birds.")
}

func (a *agentFleet) testStop(t *testing.T) {
	stop := func() {
		start := time.Now()
		r, err := a.api.StopAgentTask(t.Context(), &fleetv1.StopAgentTaskRequest{AgentName: "papi"})
		require.NoError(t, err)
		require.Equal(t, fleetv1.Task_stopped, r.GetTask().GetStatus())
		require.Empty(t, a.processes("papi"), "a stopped task must have no processes")
		t.Logf("stopped in %s", time.Since(start).Round(time.Millisecond))
	}
	a.start(t, "papi", "Think hard.", "model: hang thought")
	g := a.waitAtGate(t, "thought")
	stop()
	waitClosed(t, g.Left(), "the program must close its request to the model")

	a.start(t, "papi", "Wait.", a.promptToRun("tail -f made.txt"))
	require.Eventually(t, func() bool {
		return slices.ContainsFunc(a.processes("papi"), func(p process) bool { return strings.HasPrefix(p.command, "tail -f") })
	}, defaultTimeout, 10*time.Millisecond, "the tool does not run")
	stop()

	task := a.runTask(t, "papi", "Are you there?", "model: say Here")
	require.Equal(t, fleetv1.Task_completed, task.GetStatus(), task.GetReason())
	a.requireRemembered(t, task, "Are you there?", "Name the birds.")
}

func (a *agentFleet) testProgramKilled(t *testing.T) {
	id := a.start(t, "papi", "Live dangerously.", "model: hang killed")
	a.waitAtGate(t, "killed")
	found := 0
	for _, p := range a.processes("papi") {
		if strings.HasSuffix(p.command, a.processSuffix) || strings.Contains(p.command, a.processSuffix+" ") {
			found++
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
	}
	require.NotZero(t, found, "%q is not in %v", a.processSuffix, a.processes("papi"))
	task := a.wait(t, id)
	require.Equal(t, fleetv1.Task_failed, task.GetStatus())
	require.NotEmpty(t, task.GetReason())
	t.Log(task.GetReason())
	require.Empty(t, a.processes("papi"), "the children of the killed program must end too")
}

// testRequestRefused checks that a task fails with the message of the model's API. It needs a new agent, because a program sends an unanswered prompt
// again with the next prompt.
func (a *agentFleet) testRequestRefused(t *testing.T) {
	a.create(t, "nino", "coder")
	task := a.runTask(t, "nino", "Ask for too much.", "model: refuse 400 that is too much")
	require.Equal(t, fleetv1.Task_failed, task.GetStatus())
	require.Contains(t, task.GetReason(), "that is too much")
}

// testLostConversation deletes the agent's home directory, as if its workspace had been created again. The next task must report
// that its conversation is lost.
func (a *agentFleet) testLostConversation(t *testing.T) {
	r, err := a.api.ShowAgent(t.Context(), &fleetv1.ShowAgentRequest{AgentName: "papi"})
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(filepath.Join(filepath.Dir(r.GetAgent().GetLocation()), "home")))
	task := a.runTask(t, "papi", "Where are we?", "model: say Here")
	require.Equal(t, fleetv1.Task_completed, task.GetStatus(), task.GetReason())
	t.Log(task.GetConversationLost())
	require.NotEmpty(t, task.GetConversationLost())
	q := a.lastRequest(t, "Where are we?")
	require.NotContains(t, q.Transcript(), "Name the birds.")
	require.Contains(t, q.Transcript(), "could not be restored")
	require.Contains(t, q.System+q.Transcript(), "You are the coder of this crew.")

	task = a.runTask(t, "papi", "Go on.", "model: say On")
	require.Empty(t, task.GetConversationLost())
	a.requireRemembered(t, task, "Go on.", "Where are we?")
}
