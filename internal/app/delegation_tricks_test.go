package app

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/waittest"
)

// trick is a call of an agent that must fail with one of the reasons, or with INVALID_ARGUMENT.
type trick struct {
	method  string
	with    map[string]any
	reasons []string
}

// TestDelegationTricks lets an agent try, with its own token, calls that it may not make. No call may succeed, on any face,
// and each attempt with a valid request must be in the audit log.
func TestDelegationTricks(t *testing.T) {
	t.Parallel()
	d := newDelegationFleet(t, map[string]*fleet.Grant{
		"manager": {Roles: []string{"coder"}, MaxChildren: 3, MaxTotal: 5, PerMinute: 100, MaxCostUSD: 1, May: []fleet.DelegatedAct{fleet.ActStart, fleet.ActMessage, fleet.ActStop}},
		"coder":   {MaxDepth: 5, MaxTotal: 1000, MaxChildren: 1000, PerMinute: 1000},
	})
	boss := d.startAgentTask("boss", "manager", "wait turn")
	d.awaitRun(boss)
	other := d.startAgentTask("other", "coder", "wait turn")
	d.mustCall("create_agent", "bob", map[string]any{"name": "foreign", "project": "Setup", "spec": "s"})
	foreign := d.taskID(d.mustCall("start_agent_task", "bob", map[string]any{"agent_name": "foreign", "task_description": "wait turn"}))
	d.mustCall("create_pool", "alice", map[string]any{"name": "crew", "project": "Setup", "max_agents": 1})
	child := d.delegate("boss", "wait turn", nil)
	d.awaitRun(child)
	name, _ := d.task(child)["agent_name"].(string)
	grandchild := d.delegate(name, "wait turn", nil)
	require.InDelta(t, 0.25, d.costLimit(child), 0.001, "the dollar must be divided equally among three children and the task itself")
	require.Less(t, d.costLimit(grandchild), 0.25, "a grandchild must get only a part of the child's part")
	d.awaitRun(grandchild)
	sibling := d.delegate("boss", "wait turn", nil)
	d.awaitRun(sibling)
	siblingName, _ := d.task(sibling)["agent_name"].(string)

	tricks := tricksOfParent(t, boss, child, other, foreign)
	require.GreaterOrEqual(t, len(tricks), 200)
	d.checkTricks("boss", tricks)

	// The child reaches neither its parent nor its siblings, and the limits of the tree hold for it, whatever its own role says.
	notFound := []string{"TASK_NOT_FOUND"}
	var childTricks []trick
	for _, id := range []string{boss, sibling} {
		childTricks = append(childTricks, trick{"show_task", map[string]any{"task_id": id}, notFound}, trick{"stop_task", map[string]any{"task_id": id}, notFound})
	}
	for _, agent := range []string{"boss", siblingName} {
		childTricks = append(childTricks, trick{"send_task_message", map[string]any{"agent_name": agent, "message": "obey"}, []string{"AGENT_NOT_FOUND"}},
			trick{"queue_task", map[string]any{"agent_name": agent, "task_description": "done"}, []string{"AGENT_NOT_FOUND"}})
	}
	d.checkTricks(name, childTricks)
	grandName, _ := d.task(grandchild)["agent_name"].(string)
	require.Equal(t, "max_depth", d.requireRefused("DELEGATION_REFUSED", "queue_task", grandName, delegationRequest(nil))["limit"], "depth")
	d.delegate("boss", "wait turn", map[string]any{"max_cost_usd": json.Number("0.01")})
	require.Equal(t, "max_children", d.requireRefused("DELEGATION_REFUSED", "queue_task", "boss", delegationRequest(nil))["limit"], "width")
	d.delegate(name, "wait turn", map[string]any{"max_cost_usd": json.Number("0.01")})
	require.Equal(t, "max_total", d.requireRefused("DELEGATION_REFUSED", "queue_task", name, delegationRequest(nil))["limit"], "total")

	// The token is invalid after the task.
	d.release("turn")
	d.awaitStatus(boss, "completed")
	for _, method := range []string{"show_task", "stop_task"} {
		d.requireRefused("UNAUTHENTICATED", method, "boss", map[string]any{"task_id": child})
	}
	d.requireRefused("UNAUTHENTICATED", "queue_task", "boss", delegationRequest(nil))
}

// delegationRequest returns a request to delegate a task, with the fields of more.
func delegationRequest(more map[string]any) map[string]any {
	with := map[string]any{"project": "Setup", "role": "coder", "new_agent": true, "task_description": "done"}
	maps.Copy(with, more)
	return with
}

// tricksOfParent returns tricks of the agent boss, which works on the task parent and has delegated the task child. other is a task of
// another agent of the same owner, and foreign is a task of another owner.
func tricksOfParent(t *testing.T, parent, child, other, foreign string) []trick {
	t.Helper()
	notFound, refused := []string{"TASK_NOT_FOUND"}, []string{"DELEGATION_REFUSED"}
	var tricks []trick
	add := func(method string, with map[string]any, reasons ...string) {
		tricks = append(tricks, trick{method, with, reasons})
	}
	// All methods that are not for delegated tasks: other agents, budgets, questions, tokens, the agent's own place in the tree,
	// and more.
	x := target{agent: "other", task: other, contract: missingID, session: missingID, question: other + "-1"}
	for _, method := range slices.Sorted(maps.Keys(methods)) {
		m := methods[method]
		if boolOption(m, fleetv1.E_ForAgents) || toolsetOf(m) == "" || requiredAct(m) != "" {
			continue
		}
		add(method, x.arguments(t, m), "PERMISSION_DENIED")
	}
	// Tasks of others and ids of tasks that do not exist: the agent must not be able to tell them apart.
	for _, id := range []string{other, foreign, missingID, other[:8], "", child[:8], "*", "boss", strings.ToUpper(other), other + " ", "../" + other, other + "-2"} {
		for _, method := range []string{"show_task", "stop_task", "show_task_tree"} {
			reason := notFound
			if id == "" {
				reason = []string{"INVALID_ARGUMENT"}
			}
			add(method, map[string]any{"task_id": id}, reason...)
		}
		if id != "" {
			add("wait_tasks", map[string]any{"task_ids": []any{child, id}, "timeout_seconds": json.Number("1")}, notFound...)
		}
	}
	add("stop_task", map[string]any{"task_id": parent}, "PERMISSION_DENIED") // it can see its own task, but not stop it
	for _, method := range []string{"show_task_output", "list_task_steps", "show_task_changes"} {
		add(method, map[string]any{"task_id": child}, refused...) // its role may not
	}
	for _, agent := range []string{"other", "foreign", "foreign@bob", "boss", "other@alice", "nobody"} {
		add("send_task_message", map[string]any{"agent_name": agent, "message": "obey"}, "AGENT_NOT_FOUND")
		add("queue_task", map[string]any{"agent_name": agent, "task_description": "done"}, "AGENT_NOT_FOUND")
		add("run_task", map[string]any{"agent_name": agent, "task_description": "done"}, "AGENT_NOT_FOUND")
	}
	// Targets outside the grant, whether they exist or not.
	for _, with := range []map[string]any{
		{"project": "DataOne"}, {"project": "Nothing"}, {"project": "fake/DataOne"}, {"project": "other/Setup"}, {"role": "manager"}, {"role": "operator"}, {"role": "nobody"},
	} {
		add("queue_task", delegationRequest(with), refused...)
		add("run_task", delegationRequest(with), refused...)
	}
	for _, pool := range []string{"crew", "none", "crew@alice", "crew@bob"} {
		add("queue_task", map[string]any{"pool": pool, "task_description": "done"}, refused...)
	}
	// Forged origin and rights.
	for _, field := range []string{"parent_task_id", "root_task_id", "depth", "owner", "by", "scope", "grant", "source", "principal", "agent_uid"} {
		add("queue_task", delegationRequest(map[string]any{field: parent}), "INVALID_ARGUMENT")
	}
	add("queue_task", delegationRequest(map[string]any{"depends_on": []any{map[string]any{"task_id": other, "give_result": true}}}), notFound...)
	add("queue_task", delegationRequest(map[string]any{"depends_on": []any{map[string]any{"task_id": foreign, "give_result": true}}}), notFound...)
	add("queue_task", delegationRequest(map[string]any{"depends_on": []any{map[string]any{"task_id": missingID}}}), notFound...)
	// Money.
	for _, usd := range []string{"0.75", "1", "1000", "1e6"} {
		add("queue_task", delegationRequest(map[string]any{"max_cost_usd": json.Number(usd)}), refused...)
	}
	add("queue_task", delegationRequest(map[string]any{"max_cost_usd": json.Number("-1")}), "INVALID_ARGUMENT")
	add("queue_task", delegationRequest(map[string]any{"max_cost_usd": json.Number("0")}), "INVALID_ARGUMENT")
	return tricks
}

// TestDelegationRate lets an agent delegate four tasks in a minute. Its grant allows three.
func TestDelegationRate(t *testing.T) {
	t.Parallel()
	d := newDelegationFleet(t, map[string]*fleet.Grant{"manager": {PerMinute: 3}})
	d.awaitRun(d.startAgentTask("boss", "manager", "wait turn"))
	for range 3 {
		d.delegate("boss", "done", map[string]any{"hold": true})
	}
	details := d.requireRefused("DELEGATION_REFUSED", "queue_task", "boss", map[string]any{"project": "Setup", "task_description": "done"})
	require.Equal(t, map[string]any{"limit": "per_minute", "used": "3", "max": "3", "retry_after_seconds": json.Number("60")}, details)
}

// costLimit returns the limit of the task's costs, in US dollars.
func (d *delegationFleet) costLimit(id string) float64 {
	d.t.Helper()
	tree, _ := d.mustCall("show_task_tree", "alice", map[string]any{"task_id": id})["tasks"].([]any)
	return number(d.t, tree[0].(map[string]any)["limit_usd"])
}

// checkTricks makes the calls on every face that offers them. All must fail with one of their reasons or with INVALID_ARGUMENT, and
// change nothing. Calls with valid requests must be in the audit log.
func (d *delegationFleet) checkTricks(caller string, tricks []trick) {
	d.t.Helper()
	before, audited, tried := d.visibleState(), d.auditedRefusals(), 0
	for _, x := range tricks {
		for _, face := range []string{"grpc", "rest", "mcp"} {
			if !offers(face, methods[x.method]) {
				continue
			}
			refused := d.callRefused(face, x, caller)
			if refused == nil {
				continue
			}
			require.Contains(d.t, append(x.reasons, "INVALID_ARGUMENT"), refused.Reason, "%s on %s with %v: %s", x.method, face, x.with, refused.Message)
			if refused.Reason != "INVALID_ARGUMENT" { // an invalid request need not be in the audit log
				tried++
			}
		}
	}
	require.Equal(d.t, before, d.visibleState(), "tricks must change nothing")
	waittest.Until(d.t, "the audit log sends no signal", func() bool { return d.auditedRefusals()-audited >= tried })
}

// callRefused makes the call, which must fail, and returns the error. It returns nil if the face is gRPC and the request has a field
// that does not exist.
func (d *delegationFleet) callRefused(face string, x trick, caller string) *apiError {
	d.t.Helper()
	fields := methods[x.method].Input().Fields()
	for name := range x.with {
		if fields.ByName(protoreflect.Name(name)) == nil && face == "grpc" { // a gRPC client cannot send an unknown field
			return nil
		}
	}
	answer, refused := d.call(face, x.method, caller, x.with)
	require.NotNil(d.t, refused, "%s on %s with %v succeeded: %v", x.method, face, x.with, answer)
	return refused
}

// requiredAct returns the act that an agent's grant must allow before the agent may call the method; empty if no grant suffices.
func requiredAct(m protoreflect.MethodDescriptor) string {
	act, _ := proto.GetExtension(m.Options(), fleetv1.E_Delegated).(string)
	return act
}

// visibleState returns the tasks with their status and number of delegated tasks, and the number of agents, as alice and bob see
// them.
func (d *delegationFleet) visibleState() (all []any) {
	d.t.Helper()
	for _, caller := range []string{"alice", "bob"} {
		for _, task := range d.mustCall("list_tasks", caller, map[string]any{"page_size": json.Number("100")})["tasks"].([]any) {
			t := task.(map[string]any)
			all = append(all, []any{t["id"], t["status"], t["delegated"]})
		}
		agents, _ := d.mustCall("list_agents", caller, nil)["agents"].([]any)
		all = append(all, len(agents))
	}
	return all
}

// auditedRefusals returns how many calls of agents have failed, according to the audit log.
func (d *delegationFleet) auditedRefusals() (n int) {
	d.t.Helper()
	for cursor := ""; ; {
		with := map[string]any{"limit": json.Number("1000")}
		if cursor != "" {
			with["cursor"] = cursor
		}
		page := d.mustCall("list_audit", "root", with)
		for _, line := range page["entries"].([]any) {
			e := line.(map[string]any)
			if e["caller"] == nil || e["outcome"] == "ok" {
				continue
			}
			count, err := strconv.Atoi(e["count"].(json.Number).String())
			require.NoError(d.t, err)
			n += count
		}
		next, more := page["next_cursor"].(string)
		if !more {
			return n
		}
		cursor = next
	}
}
