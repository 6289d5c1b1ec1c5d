package app

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"fleet/internal/admission"
	"fleet/internal/fleet"
)

// accessNeeded is the access that each method needs to the agent that its request names, directly or by a task or a question: to view
// it, to run it, or to own it. An "admin" method is only for admins. A method that "lists" leaves out the objects that the caller may
// not view. A method that is "alike" is not about objects that can be shared: people with whom an agent is shared get the same answer
// as a stranger. A "caller" method is about the caller alone.
var accessNeeded = map[string]string{
	"list_agents": "lists", "list_tasks": "lists", "list_questions": "lists", "show_usage": "lists", "show_fleet": "lists", "search_fleet": "lists", "list_queue": "lists", "list_reviews": "view", "show_overlaps": "lists", "show_queue": "lists",

	"show_agent": "view", "show_agent_task_history": "view", "show_agent_log": "view", "list_agent_shares": "view", "download_agent_bundle": "view",
	"show_task": "view", "show_task_tree": "view", "wait_tasks": "view", "show_task_changes": "view", "show_task_output": "view", "compare_fan_out": "view", "list_task_steps": "view", "download_task_payload": "view", "watch_fleet": "view",

	"start_agent_task": "run", "retry_task": "run", "stop_agent_task": "run", "send_task_message": "run", "set_labels": "run", "queue_task": "run", "run_task": "run", "create_schedule": "run", "update_queued_task": "run", "hold_task": "run", "release_task": "run", "stop_task": "run", "raise_task_budget": "run", "review_task": "run", "land_tasks": "run", "publish_task": "run", "abandon_task": "run", "settle_fan_out": "run", "answer_question": "run", "remove_agent_rule": "run",

	"delete_agent": "own", "restore_agent": "own", "list_kept_work": "alike", "start_agent": "own", "stop_agent": "own", "restart_agent": "own", "share_agent": "own", "unshare_agent": "own", "delete_task": "own", "attach_agent": "own",

	"list_audit": "admin", "list_principals": "admin", "list_replicas": "admin", "forget_replica": "admin", "reload_config": "admin", "pause_fleet": "admin", "prune_work": "admin", "set_budget": "admin", "delete_budget": "admin", "resume_fleet": "admin", "release_credential": "admin",
	"create_token": "admin", "list_tokens": "admin", "rotate_token": "admin", "revoke_token": "admin",

	"update_schedule": "alike", "delete_schedule": "alike", "list_schedules": "alike", "show_schedule": "alike",
	"update_webhook": "alike", "delete_webhook": "alike", "list_webhooks": "alike", "rotate_webhook": "alike", "test_webhook": "alike", "list_deliveries": "alike", "redeliver": "alike",
	"update_pool": "alike", "delete_pool": "alike", "list_pools": "alike", "show_pool": "alike",
	"list_budgets": "alike", "show_budget": "alike", "list_credentials": "alike",

	"plan_bulk": "alike", "run_bulk": "alike",

	"create_agent": "alike", "list_agent_projects": "alike", "list_agent_roles": "alike",

	"agent_start": "alike", "agent_status": "alike", "agent_list": "alike", "agent_complete": "alike", "agent_stop": "alike", "append_payload": "alike",
	"download_payload": "alike", "execute_agent_request": "alike", "list_available_agents": "alike", "probe_agent_status": "alike",
	"register_tool_with_agent": "alike", "get_registered_tools": "alike", "remove_registered_tool": "alike", "create_agent_session": "alike",
	"send_message": "alike", "invoke_agent": "alike", "sessions/list_agents": "alike", "get_agent_session_info": "alike", "get_agent_session_history": "alike",
	"list_agent_sessions": "alike", "interrupt_agent_session": "alike", "close_agent_session": "alike", "pull_agent": "alike", "remove_pulled_agent": "alike",
	"run_subagent": "alike", "list_subagents": "alike",

	"check_health": "alike", "show_server": "alike",

	"rotate_own_token": "caller", "fan_out_task": "caller", "create_pool": "caller", "create_webhook": "caller",
}

// These are the callers of TestAccess except for alice, who owns the agent, and root, who is an admin. The agent is shared with the
// viewers to view, and with the runners to run. In each pair, the first has access as a person, and the second through a group.
var (
	viewers   = []string{"viewer", "group-viewer"}
	runners   = []string{"runner", "group-runner"}
	sharers   = slices.Concat(viewers, runners)
	nonOwners = append(slices.Clone(sharers), "stranger")
)

// groupAuth identifies callers by their tokens. A principal whose name is group-NAME is in the group oidc:NAME.
type groupAuth struct{ f **testFleet }

// Authenticate implements admission.Authenticator.
func (g groupAuth) Authenticate(ctx context.Context, md metadata.MD) (fleet.Principal, error) {
	p, err := admission.TokenAuth{Lookup: (*g.f).service.Authenticate}.Authenticate(ctx, md)
	if name, ok := strings.CutPrefix(p.Name, "group-"); ok {
		p.Groups = []string{"oidc:" + name}
	}
	return p, err
}

// TestAccess calls every method that is not about the caller alone, on every face. The callers are the owner of an agent, people and
// groups with whom it is shared to view or to run, a stranger and an admin. Each caller may do what accessNeeded says, and nothing
// more. TestIsolation checks that a stranger learns nothing from the answers.
func TestAccess(t *testing.T) {
	t.Parallel()
	tokens := map[string]tokenConfig{"alice": {}, "root": {Admin: true}}
	for _, name := range nonOwners {
		tokens[name] = tokenConfig{}
	}
	var f *testFleet
	f = newTestFleet(t, fleetConfig{Tokens: tokens, Options: func(o *Options) { o.Auth = func() admission.Authenticator { return groupAuth{&f} } }})
	x := f.sharedAgent(t, "papi")
	f.completeTask(t, "papi")
	x.task = f.variables["task"]
	f.askQuestion(t, "papi")
	x.question = f.variables["question"]
	f.prepare(t, heldTask("papi"))

	names := slices.Sorted(maps.Keys(methods))
	creating := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !createsOwnObject(name) })
	names = append(slices.DeleteFunc(names, createsOwnObject), creating...) // new objects would change answers of the other methods
	for _, name := range names {
		needed, ok := accessNeeded[name]
		require.True(t, ok, "add the access that %s needs to accessNeeded", name)
		for _, face := range []string{"grpc", "rest", "mcp"} {
			if needed != "caller" && offers(face, methods[name]) {
				f.checkAccess(t, face, name, needed, x)
			}
		}
	}
	f.checkAllowed(t)
	for _, caller := range append([]string{"alice"}, nonOwners...) {
		r := f.call(t, "grpc", "rotate_own_token", caller, nil)
		require.Nil(t, r.err, "%s", r.err)
		b, err := json.Marshal(r.answer)
		require.NoError(t, err)
		require.Contains(t, string(b), `"name":"`+caller+`"`)
	}
}

// createsOwnObject reports whether the method works alike for all callers, and each call creates an object of its caller.
func createsOwnObject(name string) bool {
	return accessNeeded[name] == "alike" && (createsAgents(name) || name == "create_agent_session" || name == "run_subagent" || name == "execute_agent_request" || name == "invoke_agent")
}

// checkAccess checks who may call the method over the face. x are objects of alice.
func (f *testFleet) checkAccess(t *testing.T, face, name, needed string, x target) {
	t.Helper()
	callName := name + " over " + face
	call := func(caller string) reply { return f.call(t, face, name, caller, x.accessArguments(t, name)) }
	switch needed {
	case "alike":
		if createsOwnObject(name) {
			for _, caller := range append([]string{"alice", "root"}, nonOwners...) { // each caller creates its own object
				require.False(t, isPermissionDenied(call(caller)), "%s by %s", callName, caller)
			}
			return
		}
		want := call("stranger")
		for _, caller := range sharers {
			require.Equal(t, replyText(t, want), replyText(t, call(caller)), "%s by %s", callName, caller)
		}
		for _, caller := range []string{"alice", "root"} { // their answers can also have objects of their own
			if name != "pull_agent" || caller != "root" { // only admins may reach the server's own networks
				require.Equal(t, isPermissionDenied(want), isPermissionDenied(call(caller)), "%s by %s", callName, caller)
			}
		}
	case "admin":
		for _, caller := range append([]string{"alice"}, nonOwners...) {
			r := call(caller)
			require.NotNil(t, r.err, "%s by %s", callName, caller)
			require.Equal(t, string(fleet.ReasonPermissionDenied), r.err.Reason, "%s by %s", callName, caller)
		}
		if r := call("root"); r.err != nil {
			require.NotEqual(t, string(fleet.ReasonPermissionDenied), r.err.Reason, "%s by root: %s", callName, r.err)
		}
	case "lists":
		want := replyText(t, call("alice")) // alice has no other objects
		for _, caller := range append([]string{"root"}, sharers...) {
			got := replyText(t, call(caller))
			if (name == "list_questions" || name == "list_queue") && caller != "root" {
				access := "view"
				if slices.Contains(runners, caller) {
					access = "run"
				}
				accessField := `"access":"` + access + `",`
				require.Contains(t, got, accessField, "%s by %s", callName, caller)
				got = strings.Replace(got, accessField, "", 1)
			}
			require.Equal(t, want, got, "%s by %s", callName, caller)
		}
		require.NotContains(t, want, "INVALID")
		require.NotEqual(t, want, replyText(t, call("stranger")), callName)
	default:
		r := call("stranger")
		require.NotNil(t, r.err, "%s by a stranger", callName)
		require.Contains(t, notFound, r.err.Reason, "%s by a stranger", callName)
		allowed := map[string][]string{"view": append([]string{"alice", "root"}, sharers...)}[needed] // for the others, see checkAllowed
		denied := map[string][]string{"run": viewers, "own": sharers}[needed]
		for _, caller := range allowed {
			r := call(caller)
			require.False(t, isDeniedOrMissing(r), "%s by %s: %s", callName, caller, r.err)
		}
		for _, caller := range denied {
			require.True(t, isPermissionDenied(call(caller)), "%s by %s", callName, caller)
		}
	}
}

// accessArguments returns the arguments with which checkAccess calls the method.
func (x target) accessArguments(t *testing.T, name string) map[string]any {
	t.Helper()
	args := x.arguments(t, methods[name])
	delete(args, "request_id") // request ids of other callers are tested elsewhere
	if _, limited := args["limit"]; limited {
		args["limit"] = json.Number("100")
	}
	if name == "list_questions" { // the question belongs to another task
		delete(args, "task_id")
	}
	if name == "list_audit" {
		delete(args, "cursor")
	}
	if name == "plan_bulk" { // a plan for all agents that the caller may restart
		delete(args, "names")
		args["all"] = true
	}
	if name == "list_tasks" {
		args["status"], args["source"] = "completed", "human"
	}
	return args
}

// checkAllowed calls every method that needs the access "run" or "own", on every face, as each caller who has this access. Each call
// has a new agent.
func (f *testFleet) checkAllowed(t *testing.T) {
	t.Helper()
	n := 0
	for _, name := range slices.Sorted(maps.Keys(accessNeeded)) {
		callers := map[string][]string{"run": append([]string{"alice", "root"}, runners...), "own": {"alice", "root"}}[accessNeeded[name]]
		for _, caller := range callers {
			for _, face := range []string{"grpc", "rest", "mcp"} {
				if !offers(face, methods[name]) {
					continue
				}
				n++
				f.checkAllowedCall(t, face, name, caller, fmt.Sprintf("a%d", n))
			}
		}
	}
}

// checkAllowedCall checks that the caller may call the method, which changes a new agent or an object of that agent.
func (f *testFleet) checkAllowedCall(t *testing.T, face, name, caller, agent string) {
	t.Helper()
	x := f.sharedAgent(t, agent)
	switch name {
	case "start_agent_task", "queue_task", "run_task", "create_schedule", "stop_task", "retry_task", "delete_task", "restart_agent", "set_labels", "review_task", "land_tasks", "publish_task", "abandon_task", "settle_fan_out":
		f.completeTask(t, agent)
		x.task = f.variables["task"]
	case "update_queued_task", "hold_task", "release_task", "raise_task_budget":
		f.prepare(t, heldTask(agent))
		x.task = f.variables["task"]
	case "answer_question", "send_task_message", "stop_agent_task":
		f.askQuestion(t, agent)
		x.question = f.variables["question"]
	}
	args := x.arguments(t, methods[name])
	delete(args, "request_id")
	if name == "update_queued_task" { // a task cannot wait for itself
		delete(args, "depends_on")
	}
	if name == "answer_question" {
		args["answer"] = "yes"
	}
	r := f.call(t, face, name, caller, args)
	require.False(t, isDeniedOrMissing(r), "%s by %s over %s: %s", name, caller, face, r.err)
}

// heldTask returns a step in which alice queues a task that does not start, and saves its id.
func heldTask(agent string) step {
	return step{Call: "queue_task", With: map[string]any{"agent_name": agent, "task_description": "done", "hold": true}, Caller: "alice", Save: map[string]string{"task": "task.id"}}
}

// sharedAgent creates an agent of alice and shares it with the viewers and the runners.
func (f *testFleet) sharedAgent(t *testing.T, name string) target {
	t.Helper()
	f.prepare(t, step{Agent: name, Caller: "alice"})
	for person, access := range map[string]string{"viewer": "view", "runner": "run"} {
		f.prepare(t,
			step{Call: "share_agent", With: map[string]any{"agent_name": name, "person": person, "access": access}, Caller: "alice"},
			step{Call: "share_agent", With: map[string]any{"agent_name": name, "group": "oidc:" + person, "access": access}, Caller: "alice"},
		)
	}
	return target{agent: name + "@alice", task: "none", contract: "none", session: "none", question: "none"}
}

// completeTask runs a task of the agent to its end, and saves the id of the task.
func (f *testFleet) completeTask(t *testing.T, agent string) {
	t.Helper()
	f.prepare(t, step{
		Task:   map[string]any{"agent_name": agent, "task_description": "echo classified\npayload classified\nchange a.txt work\ndone", "ends": true},
		Caller: "alice", Save: map[string]string{"task": "task.id"},
	})
}

// askQuestion starts a task in which the agent asks a question, and saves the id of the question.
func (f *testFleet) askQuestion(t *testing.T, agent string) {
	t.Helper()
	f.prepare(t, step{Task: map[string]any{"agent_name": agent, "task_description": "ask papi?\nlisten"}, Caller: "alice"}, step{
		Call: "list_questions", With: map[string]any{"agent_name": agent}, Caller: "alice", Until: map[string]any{"total_count": json.Number("1")},
		Save: map[string]string{"question": "questions.0.id"},
	})
}

// notFound are the error reasons for an object that does not exist, or that must not seem to exist.
var notFound = []string{"AGENT_NOT_FOUND", "TASK_NOT_FOUND", "QUESTION_NOT_FOUND"}

// isDeniedOrMissing reports whether the reply says that the caller may not make the call, or that the object does not exist.
func isDeniedOrMissing(r reply) bool {
	return isPermissionDenied(r) || r.err != nil && slices.Contains(notFound, r.err.Reason)
}

// isPermissionDenied reports whether the reply says that the caller may not make the call.
func isPermissionDenied(r reply) bool {
	return r.err != nil && (r.err.code != nil && *r.err.code == codes.PermissionDenied || r.err.Reason == string(fleet.ReasonPermissionDenied))
}

// replyText returns the reply as text, without the parts that change with time or always differ between callers.
func replyText(t *testing.T, r reply) string {
	t.Helper()
	if r.err != nil {
		return r.err.String()
	}
	if m, ok := r.answer.(map[string]any); ok {
		if _, ok := m["caller"]; ok { // show_fleet has the name of the caller and what the caller may do
			delete(m, "caller")
			delete(m, "scope")
			delete(m, "projects")
		}
		delete(m, "plan_id") // each plan has its own
	}
	b, err := json.Marshal(r.answer)
	require.NoError(t, err)
	return anyTime.ReplaceAllString(string(b), "")
}
