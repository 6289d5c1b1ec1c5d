package subagents_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/runner/sandbox"
	"fleet/internal/toolset/subagents"
)

// startHanging runs a subagent that hangs. It returns the agent and a function that ends the run.
func (w *testService) startHanging(ctx context.Context, name string) (*fleet.Agent, func()) {
	w.t.Helper()
	known := map[string]bool{}
	for _, v := range w.agents() {
		known[v.UID] = true
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	n := len(w.calls())
	go func() {
		defer close(done)
		_, _ = w.Run(ctx, subagents.Request{Agent: name, Prompt: "hang"})
	}()
	w.waitForCalls(n + 1)
	for _, v := range w.agents() {
		if !known[v.UID] {
			return &v.Agent, func() { cancel(); <-done }
		}
	}
	cancel()
	require.FailNow(w.t, "the call must create an agent")
	return nil, nil
}

// TestNesting checks which subagents an agent sees and may run, and how deep they may be nested.
func TestNesting(t *testing.T) {
	t.Parallel()
	w := newTestService(t, nil)
	w.define("lead", "calls: [worker, closed, chain]", "You lead.")
	w.define("worker", "allowed_callers: [main, lead]", "You work.")
	w.define("closed", "allowed_callers: [main]", "You are for main alone.")
	w.define("loner", "", "You run nobody.")
	w.define("chain", "allowed_callers: [main, lead]\ncalls: [deeper]", "You go on.")
	w.define("deeper", "allowed_callers: [main, chain]\ncalls: [deepest]", "You go on.")
	w.define("deepest", "allowed_callers: [main, deeper]", "You go on.")

	lead, end := w.startHanging(w.ctx(), "lead")
	defer end()
	asLead := asAgent(t.Context(), lead)
	c := lastOf(w.calls())
	var mcp struct {
		Servers map[string]struct{ URL string } `json:"mcpServers"`
	}
	require.NoError(t, json.Unmarshal(c.MCP, &mcp))
	require.Equal(t, "http://127.0.0.1:1/mcp/subagents", mcp.Servers["fleet"].URL, "the agent must have the tool to run subagents")
	require.Contains(t, c.flag("--allowedTools"), "mcp__fleet")

	r, err := w.Run(asLead, subagents.Request{Agent: "worker", Prompt: "say done"})
	require.NoError(t, err)
	require.Equal(t, "done", r.Text)
	require.NotContains(t, string(lastOf(w.calls()).MCP), "fleet", "a subagent without calls must not have the tool to run subagents")

	_, err = w.Run(asLead, subagents.Request{Agent: "closed", Prompt: "say x"})
	requireReason(t, err, fleet.ReasonPermissionDenied, "the agent lead may not", "its definition does not allow this caller")
	_, err = w.Run(asLead, subagents.Request{Agent: "loner", Prompt: "say x"})
	requireReason(t, err, fleet.ReasonPermissionDenied)
	_, err = w.Run(asLead, subagents.Request{Agent: "gone", Prompt: "say x"})
	requireReason(t, err, fleet.ReasonSubagentNotFound, "there are chain, worker")

	listed, broken, err := w.List(asLead)
	require.NoError(t, err)
	require.Empty(t, broken)
	require.Equal(t, []string{"chain", "worker"}, entryNames(listed))

	// An agent whose definition lists no calls may not run any subagent.
	loner, endLoner := w.startHanging(w.ctx(), "loner")
	defer endLoner()
	require.NotContains(t, string(lastOf(w.calls()).MCP), "fleet")
	_, err = w.Run(asAgent(t.Context(), loner), subagents.Request{Agent: "worker", Prompt: "say x"})
	requireReason(t, err, fleet.ReasonPermissionDenied)

	// There can be at most three levels.
	chain, endChain := w.startHanging(asLead, "chain")
	defer endChain()
	require.Equal(t, 1, chain.Config.Depth)
	deeper, endDeeper := w.startHanging(asAgent(t.Context(), chain), "deeper")
	defer endDeeper()
	require.Equal(t, 2, deeper.Config.Depth)
	require.Empty(t, deeper.Config.Subagents, "an agent on the last level must not see subagents that it may not run")
	require.NotContains(t, string(lastOf(w.calls()).MCP), "fleet")
	_, err = w.Run(asAgent(t.Context(), deeper), subagents.Request{Agent: "deepest", Prompt: "say x"})
	requireReason(t, err, fleet.ReasonPermissionDenied, "too many subagents stand above it")

	// All agents belong to the first caller.
	for _, v := range w.agents() {
		require.Equal(t, "alice", v.Owner)
	}
}

// TestNestedConversations checks that an agent's conversation is separate from its owner's.
func TestNestedConversations(t *testing.T) {
	t.Parallel()
	w := newTestService(t, nil)
	w.define("lead", "calls: [memo]", "You lead.")
	w.define("memo", "session: true\nallowed_callers: [main, lead]", "You remember.")
	aliceResult := w.mustRun("memo", "say mine")
	lead, end := w.startHanging(w.ctx(), "lead")
	defer end()
	for range 2 {
		leadResult, err := w.Run(asAgent(t.Context(), lead), subagents.Request{Agent: "memo", Prompt: "say theirs"})
		require.NoError(t, err)
		require.NotEqual(t, aliceResult.SessionID, leadResult.SessionID)
	}
}

// TestNestingUnconfined checks that, without a sandbox, only an admin can run a subagent, and that this subagent can
// run other subagents.
func TestNestingUnconfined(t *testing.T) {
	t.Parallel()
	w := newTestServiceWith(t, sandbox.None, nil)
	w.define("lead", "calls: [worker]", "You lead.")
	w.define("worker", "allowed_callers: [main, lead]", "You work.")
	_, err := w.run("worker", "say no")
	requireReason(t, err, fleet.ReasonPermissionDenied, "only admins may use agents")
	lead, end := w.startHanging(asRoot(t.Context()), "lead")
	defer end()
	r, err := w.Run(asAgent(t.Context(), lead), subagents.Request{Agent: "worker", Prompt: "say done"})
	require.NoError(t, err)
	require.Equal(t, "done", r.Text)
}

// TestCycles checks that subagents whose calls form a cycle are refused.
func TestCycles(t *testing.T) {
	t.Parallel()
	w := newTestService(t, nil)
	w.define("a", "calls: [gone, b]", "A.")
	w.define("b", "calls: [c]\nallowed_callers: [main, a]", "B.")
	w.define("c", "calls: [a]\nallowed_callers: [main, b]", "C.")
	w.define("d", "calls: [d]", "D.")
	w.define("e", "calls: [f, f]", "E.")
	w.define("f", "", "F.")
	_, err := w.run("a", "say x")
	requireReason(t, err, fleet.ReasonDefinitionInvalid, "a → b → c → a")
	_, err = w.run("d", "say x")
	requireReason(t, err, fleet.ReasonDefinitionInvalid, "d → d")
	listed, broken, err := w.List(w.ctx())
	require.NoError(t, err)
	require.Equal(t, []string{"e", "f"}, entryNames(listed))
	require.Len(t, broken, 4)
	require.Empty(t, w.calls())
}

func entryNames(listed []subagents.ListEntry) (all []string) {
	for _, l := range listed {
		all = append(all, l.Name)
	}
	return all
}

// TestSubagentsAreInTheTree checks that a subagent's task is a child of the task of the agent that runs it.
func TestSubagentsAreInTheTree(t *testing.T) {
	t.Parallel()
	w := newTestService(t, nil)
	w.define("lead", "calls: [worker]", "You lead.")
	w.define("worker", "allowed_callers: [lead]", "You work.")
	lead, end := w.startHanging(w.ctx(), "lead")
	defer end()
	p, err := fleet.PrincipalFrom(asAgent(t.Context(), lead))
	require.NoError(t, err)
	for _, v := range w.agents() {
		if v.UID == lead.UID {
			p.TaskID = v.Task.ID
		}
	}
	r, err := w.Run(fleet.WithPrincipal(t.Context(), p), subagents.Request{Agent: "worker", Prompt: "say done"})
	require.NoError(t, err)
	tree, _, err := w.fleet.TaskTree(w.ctx(), p.TaskID)
	require.NoError(t, err)
	require.Len(t, tree, 2)
	require.Equal(t, r.TaskID, tree[1].ID)
	require.Equal(t, 1, tree[1].Delegation.Depth)
	require.Equal(t, fleet.TaskRunning, tree[0].Status, "the first task must not wait for the second one, because the call has returned its result")
}
