package app

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"

	"fleet/internal/fleet"
)

// target has the objects that a request names: the name of an agent, and the ids of a task, of a contract, of a session and of a
// question. For the suffix "!" of the name, see arguments.
type target struct{ agent, task, contract, session, question string }

// arguments returns a request of the method with the target, and with a value for every field that the request may have. If the
// agent's name ends with "!", the request leaves out the agent or the task where it may. Add a value here for each new field of the API.
func (x target) arguments(t *testing.T, m protoreflect.MethodDescriptor) map[string]any {
	t.Helper()
	name, _, _ := strings.Cut(x.agent, "@")
	values := map[string]any{
		"agent_name": x.agent, "name": name, "task_id": x.task, "root_task_id": x.task, "task_ids": []any{x.task},
		"project": "Setup", "role": "coder", "spec": "an attack", "task_description": alicesTask, "message": "attack",
		"request_id": "alice-1", "timeout_seconds": json.Number("3600"), "page": json.Number("1"), "page_size": json.Number("100"),
		"since": "2020-01-01T00:00:00Z", "until": "2100-01-01T00:00:00Z", "by": "owners", "quiet": false, "output_without_text": false, "last_agent": false, "details": true, "kinds": []any{"text", "tool_call", "note"}, "output_of": []any{x.task}, "text": "classified", "toolset": "every",
		"payload_offset": json.Number("0"), "payload_limit": json.Number("1000000"), "payload_tail": json.Number("1000000"),
		"description_offset": json.Number("0"), "spec_offset": json.Number("0"),
		"patch": true, "path": "", "patch_offset": json.Number("0"), "patch_limit": json.Number("1000"),
		"include_payload": true, "lines": json.Number("10000"), "status": "busy", "mode": "any",
		"cursor": "0", "before": "", "follow": false, "wait_seconds": json.Number("0"), "max_events": json.Number("10000"),
		"agent_id": x.contract, "agent_ids": []any{x.contract}, "contract": "an attack", "summary": "attacked", "payload": "attack", "chunk": "attack",
		"offset": json.Number("0"), "tail": json.Number("1000"), "checks": alicesChecks, "retries": json.Number("2"), "check_timeout_seconds": json.Number("60"),
		"model": "m-1", "effort": "high", "max_turns": json.Number("3"), "max_cost_usd": json.Number("0.5"), "append_system_prompt": "attack", "output_schema": map[string]any{"type": "object"}, "attachments": []any{map[string]any{"name": "a.txt", "content": "YXR0YWNr"}},
		"prompt": alicesTask, "context": map[string]any{}, "capabilities": []any{}, "timeout": json.Number("50"), "config": map[string]any{},
		"principal": "alice", "method": "", "outcome": "", "person": "mallory", "group": "", "access": "run",
		"question_id": x.question, "answer": "attacked", "remember": "once", "rule": "Bash", "include_answered": true, "or_question": true,
		"term": "xterm", "columns": json.Number("80"), "rows": json.Number("24"), "input": "YXR0YWNr",
		"parameters": map[string]any{}, "update": false, "take_over": true,
		"pool": "", "new_agent": false, "max_attempts": json.Number("2"), "max_idle_seconds": json.Number("60"), "max_agents": json.Number("1"), "min_idle": json.Number("0"), "max_creating": json.Number("1"), "reuse": "any", "groups": []any{},
		"priority": json.Number("1"), "not_before": nil, "expires": nil, "exclusive": "attack", "hold": true, "reason": "attack",
		"cron": "0 3 * * *", "at": nil, "time_zone": "UTC", "missed": "all", "overlap": "queue", "paused": false, "task": map[string]any{"agent_name": strings.TrimSuffix(x.agent, "!"), "task_description": "attack"},
		"value": "attack", "window": "day", "limit_usd": json.Number("0.000001"), "limit_tokens": json.Number("1"), "on_breach": "stop", "unpriced": "refuse", "all": true,
		"count": json.Number("2"), "models": []any{}, "abandon_others": true,
		"wake": nil, "on_parent_end": nil, // only agents can give them
		"depends_on": []any{map[string]any{"task_id": x.task}},
		"operation":  "restart", "names": []any{strings.TrimSuffix(x.agent, "!")}, "plan_id": x.task,
		"selector": "", "labels": map[string]any{"attacked": "yes"}, "remove": []any{"owner"}, "remove_labels": []any{"team"},
		"verdict": "request_changes", "comments": []any{map[string]any{"path": "a.go", "line": json.Number("1"), "text": "attack"}}, "states": []any{},
		"into": "main", "strategy": "squash", "batch": json.Number("1"), "no_fix": false, "dry_run": false, "older_than_seconds": json.Number("0"), "unproved": true,
		"remote": "", "branch": "attack", "pull_request": false, "title": "attack", "draft": false,
		"directory":        "", // a request with project cannot have it
		"agent_session_id": x.session, "agent": x.agent, "session_name": "an attack", "source": "all", "limit": json.Number("1000"),
		"registry_ref": "127.0.0.1:1/an/attack", "keep_unsaved": true,
		"kind": "human", "admin": true, "scope": "admin", "projects": []any{}, "ttl_seconds": json.Number("0"), "overlap_seconds": json.Number("0"),
		"url": "https://evil.example.com", "topics": []any{"task_deleted"}, "disabled": true, "delivery_id": "msg_attack",
		"capability_filter": "tool_use", "include_status": true, "include_spec": true, "tool_name": "attack", "tool_spec": map[string]any{"description": "an attack"},
	}
	args := map[string]any{}
	for i := range m.Input().Fields().Len() {
		f := string(m.Input().Fields().Get(i).Name())
		v, ok := values[f]
		require.True(t, ok, "add the field %s of %s to arguments", f, m.FullName())
		args[f] = v
	}
	drop := func(fields ...string) {
		for _, f := range fields {
			delete(args, f)
		}
	}
	omitTarget := strings.HasSuffix(x.agent, "!")
	if _, paged := args["page"]; paged { // a request with a page cannot have a cursor
		drop("cursor")
	}
	drop("payload_tail", "tail") // a request with an offset cannot have them
	switch m.Name() {
	case "RunSubagent": // here the field is a text; in a provider's request it is an object
		args["context"] = "an attack"
	case "RestoreAgent": // here the field is the id of a deleted agent; the name is enough
		drop("agent_id")
	case "ListQuestions", "SearchFleet": // they have smaller limits
		args["limit"] = json.Number("100")
	case "AgentStart": // the attacker uses alice-1 for the agent that it creates
		args["request_id"] = "alice-2"
	case "CreateSchedule":
		args["name"] = "alices" // the attacker has no pool of this name
	case "SetLabels": // it takes an agent or a task
		if omitTarget {
			drop("task_id")
		} else {
			drop("agent_name")
		}
	case "CreatePool": // always the same pool, so that the attacker does not own the pools that the other methods name
		args["name"], args["request_id"] = "mine", "alice-3"
	case "FanOutTask":
		args["task_description"], args["request_id"] = "an attack", "alice-5"
	case "CreateWebhook":
		args["name"], args["request_id"] = "mine", "alice-4"
	case "ListDeliveries":
		args["status"] = "failed"
	case "Redeliver": // one delivery, or since a time
		drop("since")
	case "ShowTaskChanges":
		args["since"] = "work"
	case "UpdatePool", "DeletePool", "ShowPool":
		args["name"] = strings.TrimSuffix(name, "!")
	case "LandTasks": // it takes tasks, or a selector of tasks
		drop("selector", "project")
	case "QueueTask", "RunTask": // they take an agent, a pool or a project
		drop("project", "role", "max_idle_seconds")
	case "PlanBulk": // it makes a plan each time, even for agents that do not exist
		drop("all", "text", "labels", "remove", "priority", "timeout_seconds", "max_cost_usd", "keep_unsaved", "request_id")
	case "WaitTasks": // a short wait
		args["timeout_seconds"] = json.Number("50")
	case "WatchFleet":
		if omitTarget {
			drop("task_id")
		}
	case "ListTasks": // status and source are values of tasks
		args["status"], args["source"] = "running", "human"
		if omitTarget {
			drop("agent_name")
		}
	}
	if agent, ok := args["agent_name"].(string); ok {
		args["agent_name"] = strings.TrimSuffix(agent, "!")
	}
	return args
}

// alicesTask is the description of alice's task with the request id alice-1. Attackers send the same request.
const alicesTask = "echo classified output\npayload classified\nchange classified.txt classified work\nlisten"

var alicesChecks = []any{"echo classified check"}

var anyTime = regexp.MustCompile(`20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

// TestIsolation attacks alice's agents and tasks with every method, on every face and as every kind of principal. Each
// attacker must get the same answer as for an object that does not exist. The calls may neither show nor change alice's
// data.
func TestIsolation(t *testing.T) {
	t.Parallel()
	tokens := map[string]tokenConfig{"alice": {}}
	var attackers []string
	for _, face := range []string{"grpc", "rest", "mcp"} {
		for _, kind := range []fleet.PrincipalKind{fleet.KindHuman, fleet.KindController, fleet.KindAgent} {
			attackers = append(attackers, face+"-"+string(kind))
			tokens[face+"-"+string(kind)] = tokenConfig{Kind: kind}
		}
	}
	f := newTestFleet(t, fleetConfig{Tokens: tokens},
		step{Agent: map[string]any{"name": "papi", "spec": "classified spec"}, Caller: "alice"},
		step{Place: map[string]any{"append_log": []any{"papi", "classified log"}}},
		step{Task: map[string]any{"agent_name": "papi", "task_description": alicesTask, "request_id": "alice-1", "timeout_seconds": 3600, "checks": alicesChecks, "retries": 2, "check_timeout_seconds": 60}, Caller: "alice", Save: map[string]string{"task": "task.id"}},
		step{Call: "show_task", With: map[string]any{"task_id": "${task}"}, Caller: "alice", Until: map[string]any{"task": map[string]any{"preview": "<says classified>"}}},
		step{Call: "agent_start", With: map[string]any{"contract": "echo classified output\nlisten", "request_id": "alice-2"}, Caller: "alice", Save: map[string]string{"contract": "agent_id"}},
		step{Call: "agent_status", With: map[string]any{"agent_ids": []any{"${contract}"}}, Caller: "alice", Until: map[string]any{"agents": []any{map[string]any{"preview": "<says classified>"}}}},
		step{Call: "append_payload", With: map[string]any{"agent_id": "${contract}", "chunk": "classified payload"}, Caller: "alice"},
		step{Call: "create_agent_session", With: map[string]any{"agent": "echo", "session_name": "classified session"}, Caller: "alice", Save: map[string]string{"session": "agent_session_id"}},
		step{Call: "send_message", With: map[string]any{"agent_session_id": "${session}", "message": "done classified answer", "request_id": "alice-3"}, Caller: "alice"},
		step{Agent: map[string]any{"name": "sony"}, Caller: "alice"},
		step{Task: map[string]any{"agent_name": "sony", "task_description": "ask classified question?"}, Caller: "alice"},
		step{Call: "list_questions", Caller: "alice", Until: map[string]any{"total_count": json.Number("1")}, Save: map[string]string{"question": "questions.0.id"}},
		step{Call: "create_webhook", With: map[string]any{"name": "papi", "url": "https://hooks.example.com/classified", "topics": []any{"task_deleted"}}, Caller: "alice"},
	)
	before := f.visibleData(t)
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(methods)), func(name string) bool { return toolsetOf(methods[name]) == "" || createsAgents(name) })
	names = append(names, "create_agent", "agent_start", "fan_out_task") // these come last, because the attacker then has agents
	for _, attacker := range attackers {
		face, _, _ := strings.Cut(attacker, "-")
		for _, name := range names {
			if offers(face, methods[name]) {
				f.checkIsolation(t, face, name, attacker)
			}
		}
	}
	require.Equal(t, before, f.visibleData(t), "alice's data has changed")
}

// checkIsolation calls the method as the attacker, with alice's objects and with objects that do not exist. Both answers must be the
// same, and must not contain alice's data.
func (f *testFleet) checkIsolation(t *testing.T, face, name, attacker string) {
	t.Helper()
	m := methods[name]
	task, contract, session, question := f.variables["task"], f.variables["contract"], f.variables["session"], f.variables["question"]
	secrets := []string{"classified", `"owner":"alice"`, `"workspace-1"`, f.secrets["alice"]}
	for _, pair := range [][2]target{
		{{"nopi", missingID, missingID, missingID, missingID}, {"papi", task, contract, session, question}},
		{{"nopi@alice", missingID, missingID, missingID, missingID}, {"papi@alice", task, contract, session, question}},
		{{"nopi!", missingID, missingID, missingID, missingID}, {"papi!", task, contract, session, question}},
	} {
		answer := func(x target) string {
			r := f.call(t, face, name, attacker, x.arguments(t, m))
			if r.err != nil {
				return r.err.String()
			}
			if m, ok := r.answer.(map[string]any); ok {
				delete(m, "plan_id") // each plan has its own
			}
			b, err := json.Marshal(r.answer)
			require.NoError(t, err)
			return string(b)
		}
		missingAnswer, got := answer(pair[0]), answer(pair[1])
		// If both requests were invalid, the answers would always be equal and the comparison would prove
		// nothing.
		require.False(t, strings.Contains(missingAnswer, "INVALID_ARGUMENT") && !providerMethods[name], "%s by %s is refused: %s", name, attacker, missingAnswer)
		for _, secret := range secrets {
			require.NotContains(t, got, secret, "%s by %s", name, attacker)
		}
		missingAnswer = strings.NewReplacer("nopi", "papi", missingID, task).Replace(missingAnswer)
		got = strings.NewReplacer(contract, task, session, task, question, task).Replace(got) // the request for missing objects has the same id in all places
		if !createsAgents(name) {                                                             // for these, the second call returns the object of the first call, because of the request id
			require.Equal(t, anyTime.ReplaceAllString(missingAnswer, ""), anyTime.ReplaceAllString(got, ""), "%s by %s reveals what exists", name, attacker)
		}
	}
}

// providerMethods are methods about providers, which have no owner. They refuse names of agents as invalid.
var providerMethods = map[string]bool{"get_registered_tools": true, "register_tool_with_agent": true, "remove_registered_tool": true}

// createsAgents reports whether a call of the method creates agents, which then belong to the caller.
func createsAgents(name string) bool {
	return name == "create_agent" || name == "agent_start" || name == "fan_out_task"
}

// visibleData returns the answers of the methods with which alice can read her data, without the parts that change by themselves.
func (f *testFleet) visibleData(t *testing.T) (answers []string) {
	t.Helper()
	for _, c := range []struct{ method, with string }{
		{"show_agent", `{"agent_name":"papi"}`},
		{"show_agent_task_history", `{"agent_name":"papi"}`},
		{"show_agent_log", `{"agent_name":"papi"}`},
		{"show_task", `{"task_id":"` + f.variables["task"] + `","include_payload":true}`},
		{"show_task_output", `{"task_id":"` + f.variables["task"] + `"}`},
		{"watch_fleet", `{"agent_name":"papi"}`},
		{"list_tasks", `{"toolset":"every"}`},
		{"agent_list", `{}`},
		{"list_agents", `{}`},
		{"list_questions", `{}`},
		{"agent_status", `{"agent_ids":["` + f.variables["contract"] + `"]}`},
		{"download_payload", `{"agent_id":"` + f.variables["contract"] + `"}`},
		{"get_agent_session_info", `{"agent_session_id":"` + f.variables["session"] + `"}`},
		{"get_agent_session_history", `{"agent_session_id":"` + f.variables["session"] + `"}`},
		{"list_agent_sessions", `{}`},
		{"list_webhooks", `{}`},
		{"list_deliveries", `{"name":"papi"}`},
	} {
		v, err := decodeJSON([]byte(c.with))
		require.NoError(t, err)
		args, _ := v.(map[string]any)
		r := f.call(t, "grpc", c.method, "alice", args)
		require.Nil(t, r.err, "%s", r.err)
		m, _ := r.answer.(map[string]any)
		delete(m, "observed_at")
		delete(m, "places")
		delete(m, "cursor") // other principals append to the log
		b, err := json.Marshal(m)
		require.NoError(t, err)
		answers = append(answers, string(b))
	}
	return answers
}
