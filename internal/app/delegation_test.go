package app

import (
	"context"
	"encoding/json"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/waittest"
)

// delegationFleet is a fleet whose agents may delegate. It keeps the token of each agent's last run in testFleet.secrets, and the
// feedback that each run received.
type delegationFleet struct {
	*testFleet

	mu       sync.Mutex
	feedback map[string][]string // Run.Feedback of runs, by Run.TaskID: the later turns of task x are x-2, x-3 and so on
}

// newDelegationFleet returns a fleet of alice, bob and the admin root. grants are the grants of agents, by role.
func newDelegationFleet(t *testing.T, grants map[string]*fleet.Grant) *delegationFleet {
	t.Helper()
	d := &delegationFleet{feedback: map[string][]string{}}
	d.testFleet = newTestFleet(t, fleetConfig{Tokens: map[string]tokenConfig{"alice": {}, "bob": {}, "root": {Admin: true}}, Place: fake.Config{
		Traits: fleet.Traits{ReachesFleet: true}, Grants: grants,
		Before: func(_ context.Context, c fake.Call) error {
			if c.Method != fake.Dispatch {
				return nil
			}
			d.mu.Lock()
			defer d.mu.Unlock()
			if c.FleetEndpoint != nil {
				d.secrets[c.Agent.Name] = c.FleetEndpoint.Token
			}
			d.feedback[c.Run.TaskID] = append(d.feedback[c.Run.TaskID], c.Run.Feedback)
			return nil
		},
	}})
	return d
}

// call calls the method with the token of caller, an agent or a person, and returns the answer or the error.
func (d *delegationFleet) call(face, method, caller string, with map[string]any) (map[string]any, *apiError) {
	d.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.testFleet.call(d.t, face, method, caller, with)
	answer, _ := r.answer.(map[string]any)
	return answer, r.err
}

// mustCall is call over gRPC for a call that must succeed.
func (d *delegationFleet) mustCall(method, caller string, with map[string]any) map[string]any {
	d.t.Helper()
	answer, refused := d.call("grpc", method, caller, with)
	require.Nil(d.t, refused, method)
	return answer
}

// requireRefused makes a call that must fail on every face with the reason. It returns the details of the last error.
func (d *delegationFleet) requireRefused(reason, method, caller string, with map[string]any) (details map[string]any) {
	d.t.Helper()
	for _, face := range []string{"grpc", "rest", "mcp"} {
		_, refused := d.call(face, method, caller, with)
		require.NotNil(d.t, refused, "%s of %s on %s: %v", method, caller, face, with)
		require.Equal(d.t, reason, refused.Reason, "%s of %s on %s: %s", method, caller, face, refused.Message)
		details = refused.Details
	}
	return details
}

// task returns the task with the id, as alice sees it.
func (d *delegationFleet) task(id string) map[string]any {
	d.t.Helper()
	task, _ := d.mustCall("show_task", "alice", map[string]any{"task_id": id})["task"].(map[string]any)
	return task
}

// awaitStatus waits until the task has the status, and returns the task.
func (d *delegationFleet) awaitStatus(id, status string) map[string]any {
	d.t.Helper()
	var task map[string]any
	waittest.Until(d.t, "the test does not follow events until the task is "+status, func() bool { task = d.task(id); return task["status"] == status })
	return task
}

// startAgentTask creates an agent of alice that works on the task, and returns the task's id.
func (d *delegationFleet) startAgentTask(agent, role, description string) string {
	d.t.Helper()
	d.mustCall("create_agent", "alice", map[string]any{"name": agent, "project": "Setup", "role": role, "spec": "s"})
	return d.taskID(d.mustCall("start_agent_task", "alice", map[string]any{"agent_name": agent, "task_description": description}))
}

// taskID returns the id of the task in the answer.
func (d *delegationFleet) taskID(answer map[string]any) string {
	task, _ := answer["task"].(map[string]any)
	id, _ := task["id"].(string)
	return id
}

// awaitRun waits until an agent has received a run with the id, which is a key of d.feedback.
func (d *delegationFleet) awaitRun(id string) {
	d.t.Helper()
	waittest.Until(d.t, "the fake place sends no signal when a run begins", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return len(d.feedback[id]) > 0
	})
}

// delegate delegates a task to a new agent as the agent named caller, and returns the task's id. more has further fields of the request.
func (d *delegationFleet) delegate(caller, description string, more map[string]any) string {
	d.t.Helper()
	with := map[string]any{"project": "Setup", "role": "coder", "new_agent": true, "task_description": description}
	maps.Copy(with, more)
	return d.taskID(d.mustCall("queue_task", caller, with))
}

func (d *delegationFleet) release(gate string) { d.place.Release(gate) }

// TestDelegatedResults delegates two tasks. One ends while the parent works, and the other after the parent's turn. The parent
// must get each result once.
func TestDelegatedResults(t *testing.T) {
	t.Parallel()
	d := newDelegationFleet(t, map[string]*fleet.Grant{"manager": {}})
	parent := d.startAgentTask("boss", "manager", "listen\nwait turn\ndone all is well")
	d.awaitRun(parent)
	quick := d.delegate("boss", "done the quick one", nil)
	slow := d.delegate("boss", "wait slow\ndone the slow one", nil)
	require.Equal(t, parent, d.task(quick)["parent_task_id"])
	d.awaitStatus(quick, "completed")
	waittest.Until(t, "the test does not follow the events of the parent", func() bool { return strings.Contains(d.task(parent)["preview"].(string), "the quick one") })
	d.release("turn")
	waiting := d.awaitStatus(parent, "pending")
	waits, _ := waiting["queue"].(map[string]any)["waits"].([]any)
	require.Equal(t, "delegated", waits[0].(map[string]any)["reason"])
	require.Equal(t, "idle", d.mustCall("show_agent", "alice", map[string]any{"agent_name": "boss"})["agent"].(map[string]any)["status"], "a parent that waits must not keep its agent busy")
	d.release("slow")
	d.awaitRun(parent + "-2")
	d.mu.Lock()
	prompts := d.feedback[parent+"-2"]
	d.mu.Unlock()
	require.Len(t, prompts, 1)
	require.Contains(t, prompts[0], "the slow one")
	require.Contains(t, prompts[0], slow)
	require.NotContains(t, prompts[0], "the quick one", "the parent must not receive this result again")

	d.mustCall("send_task_message", "alice", map[string]any{"agent_name": "boss", "message": "go on"}) // the script listens again
	d.awaitStatus(parent, "completed")
	tree, _ := d.mustCall("show_task_tree", "alice", map[string]any{"task_id": slow})["tasks"].([]any)
	require.Len(t, tree, 1)
	tree, _ = d.mustCall("show_task_tree", "alice", map[string]any{"task_id": parent})["tasks"].([]any)
	require.Len(t, tree, 3)
	require.Equal(t, json.Number("3"), d.mustCall("list_tasks", "alice", map[string]any{"root_task_id": parent})["total_count"])
}

// TestDelegatedStop stops the root of a tree. All tasks of the tree must end, except a task that is detached when its parent
// ends: it must continue.
func TestDelegatedStop(t *testing.T) {
	t.Parallel()
	d := newDelegationFleet(t, map[string]*fleet.Grant{"manager": {}, "coder": {}})
	parent := d.startAgentTask("boss", "manager", "wait turn")
	d.awaitRun(parent)
	child := d.delegate("boss", "wait never", nil)
	free := d.delegate("boss", "wait free\ndone free", map[string]any{"on_parent_end": "detach"})
	held := d.delegate("boss", "done held", map[string]any{"hold": true})
	d.awaitRun(child)
	name, _ := d.task(child)["agent_name"].(string)
	grandchild := d.delegate(name, "wait never", nil)
	d.awaitRun(grandchild)
	start := time.Now()
	d.mustCall("stop_task", "alice", map[string]any{"task_id": parent})
	for _, id := range []string{child, held, grandchild} {
		require.Contains(t, d.awaitStatus(id, "stopped")["reason"], "delegated it")
	}
	t.Logf("the tree had ended after %s", time.Since(start))
	require.Equal(t, "running", d.task(free)["status"])
	tree, _ := d.mustCall("show_task_tree", "alice", map[string]any{"task_id": parent})["tasks"].([]any)
	for _, row := range tree {
		shown, _ := row.(map[string]any)
		require.Equal(t, shown["id"] == free, shown["detached"] == true, "%v", shown)
	}
	d.release("free")
	d.awaitStatus(free, "completed")
}

// TestDelegatedPool has as many parents as a pool has agents, and each parent delegates to the pool. All tasks must end.
func TestDelegatedPool(t *testing.T) {
	t.Parallel()
	d := newDelegationFleet(t, map[string]*fleet.Grant{"manager": {Pools: []string{"crew"}, PerMinute: 100}})
	d.mustCall("create_pool", "alice", map[string]any{"name": "crew", "project": "Setup", "role": "manager", "max_agents": 4})
	var parents []string
	for range 4 {
		parents = append(parents, d.taskID(d.mustCall("queue_task", "alice", map[string]any{"pool": "crew", "task_description": "wait turn\ndone"})))
	}
	for _, id := range parents {
		d.awaitRun(id)
		name, _ := d.task(id)["agent_name"].(string)
		for range 3 {
			d.mustCall("queue_task", name, map[string]any{"pool": "crew", "task_description": "done child"})
		}
	}
	d.release("turn")
	for _, id := range parents {
		d.awaitStatus(id, "completed")
	}
	listed := d.mustCall("list_agents", "alice", nil)
	require.LessOrEqual(t, len(listed["agents"].([]any)), 4)
	require.Equal(t, json.Number("16"), d.mustCall("list_tasks", "alice", map[string]any{"status": "completed"})["total_count"])
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range parents {
		require.Equal(t, 3, strings.Count(d.feedback[id+"-2"][0], "# The task that you delegated"), "each parent must continue once, with all results")
		require.Empty(t, d.feedback[id+"-3"])
	}
}

// TestDelegatedBudget gives a task the whole budget. Its delegated tasks must use the task's part of the budget, even if the
// budget has nothing left. What they do not use must return.
func TestDelegatedBudget(t *testing.T) {
	t.Parallel()
	d := newDelegationFleet(t, map[string]*fleet.Grant{"manager": {MaxChildren: 4}})
	d.mustCall("set_budget", "root", map[string]any{"name": "all", "limit_usd": json.Number("1"), "unpriced": "allow"})
	d.mustCall("create_agent", "alice", map[string]any{"name": "boss", "project": "Setup", "role": "manager", "spec": "s"})
	parent := d.taskID(d.mustCall("start_agent_task", "alice", map[string]any{"agent_name": "boss", "task_description": "cost 0.2 1\nwait turn\ndone", "max_cost_usd": json.Number("1")}))
	d.awaitRun(parent)
	d.checkBudget(1, 0)
	child := d.delegate("boss", "cost 0.1 1\nwait child\ndone", map[string]any{"max_cost_usd": json.Number("0.4"), "wake": "none"})
	d.awaitRun(child)
	d.checkBudget(1, 0)
	require.Equal(t, "0.4", d.requireRefused("DELEGATION_REFUSED", "queue_task", "boss", map[string]any{"project": "Setup", "task_description": "done", "max_cost_usd": json.Number("0.7")})["used"])
	held := d.delegate("boss", "done", map[string]any{"max_cost_usd": json.Number("0.3"), "hold": true, "wake": "none"})
	d.mustCall("stop_task", "boss", map[string]any{"task_id": held}) // its part becomes free
	d.release("child")
	d.awaitStatus(child, "completed")
	d.checkBudget(0.9, 0.1)
	rest := d.delegate("boss", "wait never", map[string]any{"max_cost_usd": json.Number("0.8"), "wake": "none"})
	d.awaitRun(rest)
	d.checkBudget(0.9, 0.1)
	d.mustCall("stop_task", "boss", map[string]any{"task_id": rest})
	d.release("turn")
	done := d.awaitStatus(parent, "completed")
	require.Equal(t, json.Number("0.2"), done["cost_usd"])
	require.InDelta(t, 0.3, number(t, done["tree_cost_usd"]), 1e-9)
	d.checkBudget(0, 0.3)
}

// TestDelegatedBudgetIsKept ends the turn of a task before its delegated tasks start. This is usual where each agent is a
// workspace. The part of a delegated task must stay reserved, so that the task can start when other tasks have reserved
// the rest of the budget. The part must be free again when the task is stopped.
func TestDelegatedBudgetIsKept(t *testing.T) {
	t.Parallel()
	d := newDelegationFleet(t, map[string]*fleet.Grant{"manager": {}})
	d.mustCall("set_budget", "root", map[string]any{"name": "all", "limit_usd": json.Number("1"), "unpriced": "allow"})
	d.mustCall("create_agent", "alice", map[string]any{"name": "boss", "project": "Setup", "role": "manager", "spec": "s"})
	parent := d.taskID(d.mustCall("start_agent_task", "alice", map[string]any{"agent_name": "boss", "task_description": "cost 0.1 1\nwait turn\ndone", "max_cost_usd": json.Number("1")}))
	d.awaitRun(parent)
	child := d.delegate("boss", "cost 0.2 1\ndone", map[string]any{"max_cost_usd": json.Number("0.4"), "hold": true})
	dropped := d.delegate("boss", "done", map[string]any{"max_cost_usd": json.Number("0.2"), "hold": true})
	d.release("turn")
	d.awaitStatus(parent, "pending")
	d.checkBudget(0.6, 0.1)
	d.mustCall("stop_task", "alice", map[string]any{"task_id": dropped})
	d.checkBudget(0.4, 0.1)
	d.mustCall("create_agent", "alice", map[string]any{"name": "other", "project": "Setup", "spec": "s"})
	other := d.taskID(d.mustCall("start_agent_task", "alice", map[string]any{"agent_name": "other", "task_description": "wait other", "max_cost_usd": json.Number("0.5")}))
	d.awaitRun(other)
	d.checkBudget(0.9, 0.1)
	d.mustCall("release_task", "alice", map[string]any{"task_id": child})
	d.awaitStatus(child, "completed")
	d.mustCall("stop_task", "alice", map[string]any{"task_id": other})
	d.awaitStatus(parent, "completed")
	d.checkBudget(0, 0.4)
	require.InDelta(t, 0.4, number(t, d.task(parent)["tree_cost_usd"]), 1e-9, "the script of the parent runs twice")
}

// checkBudget checks what the budget has reserved and spent.
func (d *delegationFleet) checkBudget(reserved, spent float64) {
	d.t.Helper()
	b, _ := d.mustCall("show_budget", "root", map[string]any{"name": "all"})["budget"].(map[string]any)
	require.InDelta(d.t, reserved, number(d.t, b["reserved_usd"]), 1e-9, "reserved")
	require.InDelta(d.t, spent, number(d.t, b["spent_usd"]), 1e-9, "spent")
}

func number(t *testing.T, v any) float64 {
	t.Helper()
	n, _ := v.(json.Number)
	f, err := n.Float64()
	require.NoError(t, err)
	return f
}
