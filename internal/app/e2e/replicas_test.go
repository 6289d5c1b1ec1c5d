package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/store/postgres/pgtest"
)

// TestReplicas sends the same requests concurrently to two servers with one database. It also kills servers, and lets a person
// change a workspace in Coder. Nothing may be created or sent twice, and both servers must show the true state afterwards.
func TestReplicas(t *testing.T) {
	outer, b := t, newTestbed(t, "bob")
	store := pgtest.URL(t) // two servers cannot share a data directory
	first := b.serve(t, setup{store: store})
	second := b.serve(t, setup{prefix: first.prefix, store: store})
	p := pair{first.callerOn("grpc"), second.callerOn("mcp")}

	t.Run("create", func(t *testing.T) {
		answers, problems := p.callBoth(t, "create_agent", object{"name": "Once", "project": "Setup", "spec": "x"})
		p.requireOneSuccess(t, answers, problems, "AGENT_EXISTS")
		answers, problems = p.callBoth(t, "create_agent", object{"name": "Twin", "project": "Setup", "spec": "x", "request_id": "twin"})
		require.Equal(t, [2]*problem{}, problems)
		require.NotEmpty(t, answers[0].text("agent.workspace_id"))
		require.Equal(t, answers[0].text("agent.workspace_id"), answers[1].text("agent.workspace_id"))
		require.Len(t, p[0].fleetWorkspaces(t), 2, "each workspace must be created once")
		for _, ws := range p[0].fleetWorkspaces(t) {
			require.Equal(t, 1, ws.LatestBuild.Number, ws.Name)
		}
	})
	t.Run("start", func(t *testing.T) {
		ws := first.workspaceOf("Once")
		for i := range 4 {
			prompt := fmt.Sprintf("sleep 1 for whoever is first, %d", i)
			answers, problems := p.callBoth(t, "start_agent_task", object{"agent_name": "Once", "task_description": prompt})
			id := p.requireOneSuccess(t, answers, problems, "AGENT_BUSY").text("task.id")
			require.Equal(t, "completed", p[i%2].wait(t, id)["status"])
			require.Equal(t, 1, b.timesPrompted(t, ws, prompt))

			prompt = fmt.Sprintf("sleep 1 for both, %d", i)
			answers, problems = p.callBoth(t, "start_agent_task", object{"agent_name": "Once", "task_description": prompt, "request_id": prompt})
			require.Equal(t, [2]*problem{}, problems)
			require.Equal(t, answers[0].text("task.id"), answers[1].text("task.id"))
			require.Equal(t, "completed", p[(i+1)%2].wait(t, answers[0].text("task.id"))["status"])
			require.Equal(t, 1, b.timesPrompted(t, ws, prompt))
		}
	})
	t.Run("one server is killed", func(t *testing.T) {
		const prompt = "sleep 6 while a server dies"
		ws := first.workspaceOf("Twin")
		id := p[0].startTask(t, "Twin", prompt)
		b.eventually(t, "the agent works", func() bool { return b.timesPrompted(t, ws, prompt) == 1 })
		first.kill(t)
		done := p[1].wait(t, id)
		require.Equal(t, "completed", done["status"], "%v", done)
		require.Contains(t, done["summary"], prompt)
		require.Equal(t, 1, b.timesPrompted(t, ws, prompt))
		p[0] = b.serve(outer, setup{prefix: first.prefix, store: store}).callerOn("rest")
	})
	t.Run("a message survives its server", func(t *testing.T) {
		const prompt = "sleep 15 while messages wait"
		ws := first.workspaceOf("Twin")
		id := p[0].startTask(t, "Twin", prompt)
		b.eventually(t, "the agent works", func() bool { return b.timesPrompted(t, ws, prompt) == 1 })
		for i, m := range []string{"echo heard of one", "echo heard of another"} { // one message through the server that follows the task, and one through the other server
			r := p[i].call(t, "send_task_message", object{"agent_name": "Twin", "message": m})
			require.Contains(t, r["message"], "is stored", "the message must be stored, because the agent works: %v", r)
			require.Equal(t, id, r.text("task.id"))
			p[i].kill(t)
			p[i] = b.serve(outer, setup{prefix: first.prefix, store: store}).callerOn("grpc")
		}
		done := p[0].wait(t, id)
		require.Equal(t, "completed", done["status"], "%v", done)
		require.Contains(t, done["summary"], "heard of another")
		for _, m := range []string{prompt, "echo heard of one", "echo heard of another"} {
			require.Equal(t, 1, b.timesPrompted(t, ws, m), m)
		}
	})
	t.Run("with a person", func(t *testing.T) { p.changeBesidePerson(t, "Once") })
	for _, name := range []string{"Once", "Twin"} {
		p[0].remove(t, name)
		within(t, stateDelayLimit, name+" is deleted on both servers", func() bool { return p[1].listedAgent(t, name) == nil })
	}
}

// pair is two servers with one database.
type pair [2]caller

// callBoth sends the same call to both servers concurrently.
func (p pair) callBoth(t *testing.T, tool string, args object) (answers [2]object, problems [2]*problem) {
	t.Helper()
	var calls sync.WaitGroup
	for i := range p {
		calls.Go(func() { answers[i], problems[i] = p[i].try(t, tool, args) })
	}
	calls.Wait()
	return answers, problems
}

// requireOneSuccess requires that exactly one call succeeded and that the other call was refused with the reason. It returns the
// answer of the successful call.
func (p pair) requireOneSuccess(t *testing.T, answers [2]object, problems [2]*problem, reason string) object {
	t.Helper()
	for i := range p {
		if problems[i] == nil {
			require.NotNil(t, problems[1-i], "only one call may succeed: %v", answers)
			require.Equal(t, reason, problems[1-i].Reason, "%v", problems[1-i])
			return answers[i]
		}
	}
	require.FailNow(t, "one call must succeed", "%v", problems)
	return nil
}

// fleetWorkspaces returns the workspaces with the server's prefix.
func (s *server) fleetWorkspaces(t *testing.T) []workspace {
	t.Helper()
	return s.workspaces(t, "owner:"+s.user+" name:"+s.prefix)
}

// changeBesidePerson repeatedly calls the servers while a person starts or stops the workspace in Coder. After each round both servers
// must show the true state, and at the end the agent must complete a task.
func (p pair) changeBesidePerson(t *testing.T, agent string) {
	ws, _ := p[0].workspace(t, p[0].workspaceOf(agent))
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, seed))
	started := 0
	endedByStatus := map[string]int{}
	for round := range 6 {
		var actions sync.WaitGroup
		click := []string{"start", "stop"}[r.IntN(2)]
		tool := []string{"start_agent", "stop_agent", "restart_agent"}[r.IntN(3)]
		prompt := fmt.Sprintf("sleep 1 in round %d", round)
		var id string
		actions.Go(func() {
			status := p[0].requestBuild(t, ws.ID, click)
			require.Contains(t, []int{http.StatusCreated, http.StatusConflict}, status, "Coder may refuse only because another build is active")
		})
		actions.Go(func() {
			if _, problem := p[round%2].try(t, tool, object{"agent_name": agent}); problem != nil {
				require.Contains(t, []string{"PROVISIONING_FAILED", "AGENT_OFFLINE", "BACKEND_UNAVAILABLE"}, problem.Reason, "%v", problem)
			}
		})
		actions.Go(func() {
			answer, problem := p[1-round%2].try(t, "start_agent_task", object{"agent_name": agent, "task_description": prompt})
			if problem != nil {
				require.Contains(t, []string{"AGENT_OFFLINE", "AGENT_BUSY"}, problem.Reason, "%v", problem)
				return
			}
			id = answer.text("task.id")
		})
		actions.Wait()
		if id != "" {
			started++
			end := p[0].wait(t, id)
			endedByStatus[fmt.Sprint(end["status"])]++
			require.LessOrEqual(t, p.timesPromptedNow(t, ws.Name, prompt), 1)
		}
		p.requireSameState(t, agent, ws)
		t.Logf("round %d: %s while a person clicks %s: %v", round, tool, click, p[0].agent(t, agent)["state"])
	}
	t.Logf("%d tasks were started meanwhile, by their final status: %v", started, endedByStatus)
	if p[0].agent(t, agent)["state"] == "stopped" {
		p[0].call(t, "start_agent", object{"agent_name": agent})
	}
	require.Equal(t, "completed", p[1].wait(t, p[1].startTask(t, agent, "echo all is well"))["status"])
}

// timesPromptedNow returns how many times the agent received exactly this prompt. Unlike timesPrompted, it does not wait for the agent,
// which may be stopped: it then returns 0.
func (p pair) timesPromptedNow(t *testing.T, ws, prompt string) (n int) {
	all, _ := p[0].prompts(t, ws)
	for _, s := range all {
		if s == prompt {
			n++
		}
	}
	return n
}

// requireSameState waits until Coder has no active build of the workspace. It requires that both servers then show the workspace's state within 30 s.
func (p pair) requireSameState(t *testing.T, agent string, ws workspace) {
	t.Helper()
	var now workspace
	atRest := func() bool {
		now, _ = p[0].workspace(t, ws.Name)
		return now.LatestBuild.Status == "running" || now.LatestBuild.Status == "stopped"
	}
	p[0].eventually(t, "the workspace is at rest", atRest)
	start := time.Now()
	within(t, 30*time.Second, "both servers show the true state", func() bool {
		if !atRest() { // a request of the test may have started another build after the click
			return false
		}
		for _, c := range p {
			if c.agent(t, agent)["state"] != now.LatestBuild.Status {
				return false
			}
		}
		return true
	})
	t.Logf("both servers say %s after %s", now.LatestBuild.Status, time.Since(start).Round(10*time.Millisecond))
}
