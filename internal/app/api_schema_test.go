package app

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/face/facetest"
)

// validRequests has a valid request for each method with rules for its fields, by the name of the method's tool. The objects that a
// request names need not exist. ${task} is the id of a completed task, and ${session} the id of a session.
var validRequests = map[string]string{
	"create_agent":              `{"name":"fresh","project":"Setup","spec":"s"}`,
	"list_agents":               `{}`,
	"list_tasks":                `{}`,
	"show_usage":                `{"by":"days"}`,
	"search_fleet":              `{"text":"papi"}`,
	"delete_task":               `{"task_id":"nobody"}`,
	"retry_task":                `{"task_id":"nobody"}`,
	"show_agent":                `{"agent_name":"papi"}`,
	"show_agent_task_history":   `{"agent_name":"papi"}`,
	"delete_agent":              `{"agent_name":"nobody"}`,
	"list_kept_work":            `{}`,
	"restore_agent":             `{"agent_name":"nobody"}`,
	"attach_agent":              `{"agent_name":"papi"}`,
	"start_agent_task":          `{"agent_name":"papi","task_description":"wait gate","attachments":[{"name":"a.txt","media_type":"text/plain","content":"YQ=="}]}`,
	"stop_agent_task":           `{"agent_name":"papi"}`,
	"list_agent_roles":          `{"project":"Setup"}`,
	"list_agent_projects":       `{}`,
	"sessions/list_agents":      `{}`,
	"watch_fleet":               `{}`,
	"wait_tasks":                `{"task_ids":["${task}"]}`,
	"show_task":                 `{"task_id":"${task}"}`,
	"download_task_payload":     `{"task_id":"${task}"}`,
	"download_agent_bundle":     `{"agent_name":"papi"}`,
	"list_questions":            `{}`,
	"answer_question":           `{"question_id":"nobody","answer":"allow"}`,
	"show_task_changes":         `{"task_id":"${task}","patch":true}`,
	"show_task_output":          `{"task_id":"${task}"}`,
	"list_task_steps":           `{"task_id":"${task}","kinds":["text"]}`,
	"send_task_message":         `{"agent_name":"papi","message":"hello"}`,
	"list_principals":           `{"limit":10}`,
	"list_replicas":             `{}`,
	"forget_replica":            `{"name":"nobody"}`,
	"reload_config":             `{}`,
	"pause_fleet":               `{"reason":"an upgrade"}`,
	"prune_work":                `{"project":"Setup","older_than_seconds":0,"dry_run":true}`,
	"resume_fleet":              `{}`,
	"create_schedule":           `{"name":"nightly","cron":"0 3 * * *","task":{"agent_name":"papi","task_description":"done"}}`,
	"update_schedule":           `{"name":"nobody"}`,
	"delete_schedule":           `{"name":"nobody"}`,
	"list_schedules":            `{}`,
	"show_schedule":             `{"name":"nobody"}`,
	"create_webhook":            `{"name":"fresh","url":"https://hooks.example.com","topics":["all"]}`,
	"update_webhook":            `{"name":"nobody"}`,
	"list_webhooks":             `{}`,
	"delete_webhook":            `{"name":"nobody"}`,
	"rotate_webhook":            `{"name":"nobody"}`,
	"test_webhook":              `{"name":"nobody"}`,
	"list_deliveries":           `{"name":"nobody"}`,
	"redeliver":                 `{"name":"nobody","delivery_id":"nothing"}`,
	"remove_agent_rule":         `{"agent_name":"papi","rule":"Bash"}`,
	"start_agent":               `{"agent_name":"papi"}`,
	"stop_agent":                `{"agent_name":"sony"}`,
	"restart_agent":             `{"agent_name":"sony"}`,
	"share_agent":               `{"agent_name":"papi","person":"bob","access":"view"}`,
	"plan_bulk":                 `{"operation":"queue","names":["papi"],"text":"done"}`,
	"run_bulk":                  `{"plan_id":"nobody"}`,
	"set_labels":                `{"agent_name":"papi","labels":{"env":"prod"}}`,
	"show_task_tree":            `{"task_id":"${task}"}`,
	"queue_task":                `{"agent_name":"papi","task_description":"wait gate"}`,
	"fan_out_task":              `{"project":"Setup","count":2,"task_description":"wait gate"}`,
	"compare_fan_out":           `{"task_id":"nobody"}`,
	"settle_fan_out":            `{"task_id":"nobody"}`,
	"run_task":                  `{"agent_name":"papi","task_description":"done","wait_seconds":0,"request_id":"run"}`,
	"update_queued_task":        `{"task_id":"nobody","priority":1}`,
	"hold_task":                 `{"task_id":"nobody"}`,
	"release_task":              `{"task_id":"nobody"}`,
	"stop_task":                 `{"task_id":"nobody"}`,
	"list_queue":                `{}`,
	"set_budget":                `{"name":"day","limit_usd":1000,"unpriced":"allow"}`,
	"delete_budget":             `{"name":"day"}`,
	"list_budgets":              `{}`,
	"list_credentials":          `{}`,
	"release_credential":        `{"name":"team-max"}`,
	"show_budget":               `{"name":"day"}`,
	"review_task":               `{"task_id":"nobody","verdict":"approve"}`,
	"list_reviews":              `{}`,
	"show_overlaps":             `{"project":"Setup"}`,
	"land_tasks":                `{"task_ids":["nobody"]}`,
	"publish_task":              `{"task_id":"nobody"}`,
	"abandon_task":              `{"task_id":"nobody"}`,
	"raise_task_budget":         `{"task_id":"nobody","max_cost_usd":1}`,
	"show_queue":                `{}`,
	"create_pool":               `{"name":"web","project":"Setup","max_agents":1}`,
	"update_pool":               `{"name":"web"}`,
	"delete_pool":               `{"name":"web"}`,
	"list_pools":                `{}`,
	"show_pool":                 `{"name":"web"}`,
	"unshare_agent":             `{"agent_name":"papi","person":"bob"}`,
	"list_audit":                `{}`,
	"list_agent_shares":         `{"agent_name":"papi"}`,
	"show_agent_log":            `{"agent_name":"papi"}`,
	"execute_agent_request":     `{"agent_name":"claude","prompt":"p"}`,
	"list_available_agents":     `{}`,
	"probe_agent_status":        `{"agent_name":"claude"}`,
	"register_tool_with_agent":  `{"tool_name":"calc","tool_spec":{"description":"d","http":{"url":"https://tools.example.com"}}}`,
	"get_registered_tools":      `{}`,
	"remove_registered_tool":    `{"tool_name":"nothing"}`,
	"run_subagent":              `{"agent_name":"web-search","prompt":"done"}`,
	"list_subagents":            `{}`,
	"agent_start":               `{"contract":"done"}`,
	"agent_status":              `{"agent_ids":["nobody"]}`,
	"agent_complete":            `{"agent_id":"nobody","summary":"s"}`,
	"agent_list":                `{}`,
	"agent_stop":                `{"agent_id":"nobody"}`,
	"append_payload":            `{"agent_id":"nobody","chunk":"c"}`,
	"download_payload":          `{"agent_id":"nobody"}`,
	"create_agent_session":      `{"agent":"echo"}`,
	"send_message":              `{"agent_session_id":"nobody","message":"m"}`,
	"invoke_agent":              `{"agent":"echo","message":"done"}`,
	"get_agent_session_info":    `{"agent_session_id":"nobody"}`,
	"get_agent_session_history": `{"agent_session_id":"${session}"}`,
	"list_agent_sessions":       `{}`,
	"close_agent_session":       `{"agent_session_id":"nobody"}`,
	"interrupt_agent_session":   `{"agent_session_id":"nobody"}`,
	"pull_agent":                `{"registry_ref":"127.0.0.1:1/x/y"}`,
	"remove_pulled_agent":       `{"registry_ref":"x/y"}`,
	"create_token":              `{"name":"fresh"}`,
	"rotate_token":              `{"name":"nobody"}`,
	"rotate_own_token":          `{}`,
	"revoke_token":              `{"name":"nobody"}`,
}

// ruleProbe is a value of a field that just satisfies or just violates a rule of the schema.
type ruleProbe struct {
	method protoreflect.MethodDescriptor
	field  protoreflect.FieldDescriptor
	rule   string
	value  any
	valid  bool
}

func (p ruleProbe) String() string {
	return fmt.Sprintf("%s.%s %s", p.method.Name(), p.field.Name(), p.rule)
}

// reason returns the expected reason for a value that violates the rule. A field may have its own reason for a missing
// text. That reason does not apply to a text that is too large.
func (p ruleProbe) reason() string {
	r, _ := proto.GetExtension(p.field.Options(), fleetv1.E_InvalidReason).(fleetv1.ErrorReason)
	tooLarge := p.rule == "max_bytes" && (r == fleetv1.ErrorReason_SPEC_REQUIRED || r == fleetv1.ErrorReason_TASK_REQUIRED)
	if r == 0 || tooLarge {
		r = fleetv1.ErrorReason_INVALID_ARGUMENT
	}
	return r.String()
}

// ruleProbes returns values that just satisfy or violate each rule of the schema: field_behavior, protovalidate, and enums.
func ruleProbes(t *testing.T, task string) (all []ruleProbe) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(methods)) {
		m := methods[name]
		fields := m.Input().Fields()
		for i := range fields.Len() {
			f := fields.Get(i)
			valid := func(rule string, value any) {
				all = append(all, ruleProbe{method: m, field: f, rule: rule, value: value, valid: true})
			}
			invalid := func(rule string, value any) {
				all = append(all, ruleProbe{method: m, field: f, rule: rule, value: value})
			}
			behaviours, _ := proto.GetExtension(f.Options(), annotations.E_FieldBehavior).([]annotations.FieldBehavior)
			switch {
			case !slices.Contains(behaviours, annotations.FieldBehavior_REQUIRED):
			case f.IsList():
				invalid("required", []any{})
			case f.Kind() == protoreflect.MessageKind:
				invalid("required", nil)
			case f.Kind() == protoreflect.DoubleKind:
				invalid("required", json.Number("0"))
			case f.Kind() == protoreflect.EnumKind:
				invalid("required", string(f.Enum().Values().ByNumber(0).Name()))
			default:
				invalid("required", "")
			}
			if f.Kind() == protoreflect.EnumKind {
				for _, number := range []any{json.Number("99"), json.Number("-1")} {
					if f.IsList() {
						number = []any{number}
					}
					invalid("enum", number)
				}
			}
			rules, _ := proto.GetExtension(f.Options(), validate.E_Field).(*validate.FieldRules)
			id := fmt.Sprintf("%03d", len(all)) // makes request ids unique
			if rules.GetString().HasMaxLen() && rules.GetString().GetPattern() == "" {
				valid("max_len", strings.Repeat("é", int(rules.GetString().GetMaxLen())-len(id))+id) //nolint:gosec // small
			}
			rules.ProtoReflect().Range(func(kind protoreflect.FieldDescriptor, v protoreflect.Value) bool {
				require.Contains(t, []string{"string", "int32", "int64", "repeated", "map"}, string(kind.Name()), "add values for this kind of rule to the test")
				v.Message().Range(func(rule protoreflect.FieldDescriptor, limit protoreflect.Value) bool {
					addBoundaryValues(t, f, string(rule.Name()), limit, task, id, valid, invalid)
					return true
				})
				return true
			})
		}
	}
	return all
}

// addBoundaryValues calls valid with values that just satisfy the rule of the field, and invalid with values that just violate it. task is the id of a task for lists of ids.
// id distinguishes the valid texts of different rules.
func addBoundaryValues(t *testing.T, f protoreflect.FieldDescriptor, rule string, limit protoreflect.Value, task, id string, valid, invalid func(rule string, value any)) {
	t.Helper()
	number := func(n int64) json.Number { return json.Number(fmt.Sprint(n)) }
	list := func(n uint64) (items []any) {
		for i := range n {
			if f.Kind() == protoreflect.MessageKind {
				items = append(items, map[string]any{"name": fmt.Sprintf("%d.txt", i), "content": "YQ=="})
				continue
			}
			items = append(items, task)
		}
		return items
	}
	switch rule {
	case "min_len":
		invalid(rule, strings.Repeat("x", int(limit.Uint())-1)) //nolint:gosec // small
	case "max_len":
		n := int(limit.Uint()) //nolint:gosec // small
		invalid(rule, strings.Repeat("x", n+1))
		valid(rule, strings.Repeat("x", n-len(id))+id)
	case "max_bytes":
		n := int(limit.Uint())                      //nolint:gosec // small
		invalid(rule, strings.Repeat("é", n/2)+"x") // fewer characters than bytes
		valid(rule, strings.Repeat("x", n))
	case "in":
		invalid(rule, "none of them")
	case "pattern":
		for _, s := range []string{"-", "a--b", "-a", "a-", "a b", "a_b", "é", "a\n", "\na", "a/b", "a@b", "a.b"} {
			invalid(rule+fmt.Sprintf(" %q", s), s)
		}
	case "gte":
		invalid(rule, number(limit.Int()-1))
		invalid(rule, number(-1<<31))
		valid(rule, number(limit.Int()))
	case "lte":
		invalid(rule, number(limit.Int()+1))
		invalid(rule, number(1<<31-1))
		valid(rule, number(limit.Int()))
	case "min_items":
		invalid(rule, list(limit.Uint()-1))
	case "max_pairs":
		pairs := map[string]any{}
		for i := range limit.Uint() + 1 {
			pairs[fmt.Sprint(i)] = "x"
		}
		invalid(rule, pairs)
	case "max_items":
		invalid(rule, list(limit.Uint()+1))
		valid(rule, list(limit.Uint()))
	default:
		require.Fail(t, "add values around the rule "+rule+" to the test")
	}
}

// TestSchemaRulesAreEnforced checks that the server enforces the rules of the schema, which clients use for validation.
// It must refuse a value that just violates a rule, with the field and its reason, and accept a value that just
// satisfies it.
func TestSchemaRulesAreEnforced(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, fleetConfig{},
		step{Agent: "papi"},
		step{Agent: "sony"},
		step{Task: map[string]any{"agent_name": "papi", "task_description": "done", "ends": true}, Save: map[string]string{"task": "task.id"}},
		step{Call: "create_agent_session", With: map[string]any{"agent": "echo"}, Save: map[string]string{"session": "agent_session_id"}},
	)
	for _, p := range ruleProbes(t, f.variables["task"]) {
		name := facetest.ToolName(p.method.Name())
		validRequest, ok := validRequests[name]
		require.True(t, ok, "add a valid request of %s to validRequests", name)
		v, err := decodeJSON([]byte(strings.NewReplacer("${task}", f.variables["task"], "${session}", f.variables["session"]).Replace(validRequest)))
		require.NoError(t, err)
		args, _ := v.(map[string]any)
		args[string(p.field.Name())] = p.value
		for _, face := range p.facesToTest() {
			r, err := faces[face](f, t.Context(), call{method: p.method, args: args})
			require.NoError(t, err, "%s on %s", p, face)
			if p.valid {
				require.False(t, r.err != nil && r.err.Details["field"] == string(p.field.Name()), "%s on %s is valid but was refused: %s", p, face, r.err)
				continue
			}
			require.NotNil(t, r.err, "%s on %s is invalid but was not refused", p, face)
			require.Equal(t, p.reason(), r.err.Reason, "%s on %s: %s", p, face, r.err)
			require.Equal(t, string(p.field.Name()), r.err.Details["field"], "%s on %s: %s", p, face, r.err)
			if r.err.code != nil {
				require.Equal(t, "InvalidArgument", r.err.code.String(), "%s on %s: %s", p, face, r.err)
			}
			if r.err.http != 0 {
				require.Equal(t, 400, r.err.http, "%s on %s: %s", p, face, r.err)
			}
		}
	}
}

// facesToTest returns the faces on which the test sends the value.
func (p ruleProbe) facesToTest() []string {
	if p.valid || p.rule == "enum" || p.rule == "max_bytes" {
		return []string{"grpc"} // the others cannot send numbers of enum values, and are slow with large texts; for a valid value, one face is enough
	}
	all := []string{"grpc"}
	if hasTool(p.method) {
		all = append(all, "mcp")
	}
	if _, path := facetest.Binding(p.method); offers("rest", p.method) && !strings.Contains(path, "{"+string(p.field.Name())+"}") {
		all = append(all, "rest")
	}
	return all
}
