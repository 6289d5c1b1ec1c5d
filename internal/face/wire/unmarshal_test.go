package wire_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/face/wire"
)

func TestUnmarshal(t *testing.T) {
	t.Parallel()
	context, err := structpb.NewStruct(map[string]any{"a": []any{map[string]any{}, []any{}, true, false, nil, -1500, "\n"}})
	require.NoError(t, err)
	for _, c := range []struct {
		name, json string
		want       proto.Message
	}{
		{"nothing", ``, &fleetv1.ListAgentsRequest{}},
		{"spaces", " \n", &fleetv1.ListAgentsRequest{}},
		{"null", `null`, &fleetv1.ListAgentsRequest{}},
		{"empty", `{}`, &fleetv1.ListAgentsRequest{}},
		{"fields", `{"project":"Setup","status":"idle","page":2,"page_size":1000000000}`, &fleetv1.ListAgentsRequest{
			Project: "Setup", Status: fleetv1.Agent_idle, Page: proto.Int32(2), PageSize: proto.Int32(1e9),
		}},
		{"null is not given", `{"project":null,"status":null,"page":null}`, &fleetv1.ListAgentsRequest{}},
		{"whole numbers in every notation", `{"page":1e2,"page_size":20.0}`, &fleetv1.ListAgentsRequest{Page: proto.Int32(100), PageSize: proto.Int32(20)}},
		{"lists", `{"task_ids":["a","b"],"mode":"any"}`, &fleetv1.WaitTasksRequest{TaskIds: []string{"a", "b"}, Mode: fleetv1.WaitTasksRequest_any}},
		{"spaces around", " {\"agent_name\" : \"\\u0070api\"}\n", &fleetv1.ShowAgentRequest{AgentName: "papi"}},
		{"whole numbers that look fractional", `{"page":0.01e4,"page_size":-0.0}`, &fleetv1.ListAgentsRequest{Page: proto.Int32(100), PageSize: proto.Int32(0)}},
		{"numbers of 64 bits in quotes", `{"task_id":"t","offset":"9223372036854775807"}`, &fleetv1.DownloadTaskPayloadRequest{TaskId: "t", Offset: math.MaxInt64}},
		{"a number", `{"offset":1.5}`, &fleetv1.ShowTaskOutputRequest{Offset: proto.Float64(1.5)}},
		{"a time", `{"since":"2025-10-29T10:00:00.5+01:00"}`, &fleetv1.ListTasksRequest{Since: &timestamppb.Timestamp{Seconds: 1761728400, Nanos: 5e8}}},
		{"any object", `{"context":{"a":[{},[],true,false,null,-1.5e3,"\n"]}}`, &fleetv1.ExecuteAgentRequestRequest{Context: context}},
		{"texts by name", `{"parameters":{"region":"eu","size":""}}`, &fleetv1.CreateAgentRequest{Parameters: map[string]string{"region": "eu", "size": ""}}},
		{"messages", `{"attachments":[{"name":"a","content":"+/8="},{"media_type":"b","content":null},{}],"agent_name":"papi"}`, &fleetv1.StartAgentTaskRequest{
			AgentName: "papi", Attachments: []*fleetv1.NewAttachment{{Name: "a", Content: []byte{0xfb, 0xff}}, {MediaType: "b"}, {}},
		}},
		{"base64 of the other alphabet without padding", `{"content":"-_8"}`, &fleetv1.NewAttachment{Content: []byte{0xfb, 0xff}}},
		{"no bytes", `{"content":""}`, &fleetv1.NewAttachment{}},
		{"numbers of 64 bits", `{"offset":92233720368547758070e-1}`, &fleetv1.DownloadTaskPayloadRequest{Offset: math.MaxInt64}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := c.want.ProtoReflect().New().Interface()
			require.NoError(t, wire.Unmarshal([]byte(c.json), got))
			require.Empty(t, diff(c.want, got))
		})
	}
}

// diff returns "" if the messages are equal, and otherwise both as text.
func diff(want, got proto.Message) string {
	if proto.Equal(want, got) {
		return ""
	}
	return want.ProtoReflect().Interface().(interface{ String() string }).String() + " != " + got.(interface{ String() string }).String()
}

func TestUnmarshalRefuses(t *testing.T) {
	t.Parallel()
	var (
		list     = &fleetv1.ListAgentsRequest{}
		create   = &fleetv1.CreateAgentRequest{}
		wait     = &fleetv1.WaitTasksRequest{}
		output   = &fleetv1.ShowTaskOutputRequest{}
		download = &fleetv1.DownloadTaskPayloadRequest{}
		tasks    = &fleetv1.ListTasksRequest{}
		start    = &fleetv1.StartAgentTaskRequest{}
		run      = &fleetv1.ExecuteAgentRequestRequest{}
	)
	for _, c := range []struct {
		name    string
		message proto.Message
		json    string
		reason  string
		field   string
		text    string
	}{
		{"unknown field, near", &fleetv1.ShowAgentRequest{}, `{"agent_nam":"papi"}`, "INVALID_ARGUMENT", "agent_nam", `unknown field "agent_nam": did you mean "agent_name"?`},
		{"camel case", &fleetv1.ShowAgentRequest{}, `{"agentName":"papi"}`, "INVALID_ARGUMENT", "agentName", `unknown field "agentName": did you mean "agent_name"?`},
		{"unknown field, far", list, `{"verbosity":1}`, "INVALID_ARGUMENT", "verbosity", `unknown field "verbosity": the known fields are project, role, status, page, page_size`},
		{"unknown field of a request without fields", &fleetv1.ListTokensRequest{}, `{"x":1}`, "INVALID_ARGUMENT", "x", `unknown field "x": the request has no fields`},
		{"page is text", list, `{"page":"x"}`, "INVALID_PAGE", "page", `page must be a whole number, got the string "x"`},
		{"page in quotes", list, `{"page":"1"}`, "INVALID_PAGE", "page", `page must be a whole number, got the string "1"`},
		{"page is fractional", list, `{"page":1.5}`, "INVALID_PAGE", "page", `page must be a whole number, got 1.5`},
		{"page is huge", list, `{"page":1e99}`, "INVALID_PAGE", "page", `page must be a whole number from -2147483648 to 2147483647, got 1e99`},
		{"page is beyond any float", list, `{"page":1e999}`, "INVALID_PAGE", "page", `page must be a whole number from -2147483648 to 2147483647, got 1e999`},
		{"page is an object", list, `{"page":{}}`, "INVALID_PAGE", "page", `page must be a whole number, got an object`},
		{"page size is a bool", list, `{"page_size":true}`, "INVALID_PAGE_SIZE", "page_size", `page_size must be a whole number, got true`},
		{"name is a number", create, `{"name":5}`, "INVALID_NAME", "name", `name must be a string, got the number 5`},
		{"name is a list", create, `{"name":["a"]}`, "INVALID_NAME", "name", `name must be a string, got a list`},
		{"spec twice", create, `{"spec":"a","spec":"b"}`, "SPEC_REQUIRED", "spec", `the field "spec" is given twice; give it once`},
		{"enum in wrong case", list, `{"status":"Idle"}`, "INVALID_ARGUMENT", "status", `status must be one of busy, idle, offline, got "Idle"; did you mean "idle"?`},
		{"enum unknown", list, `{"status":"sleeping"}`, "INVALID_ARGUMENT", "status", `status must be one of busy, idle, offline, got "sleeping"`},
		{"enum empty", list, `{"status":""}`, "INVALID_ARGUMENT", "status", `status must be one of busy, idle, offline, got ""`},
		{"enum zero", list, `{"status":"status_unspecified"}`, "INVALID_ARGUMENT", "status", `status must be one of busy, idle, offline, got "status_unspecified"`},
		{"enum number", list, `{"status":1}`, "INVALID_ARGUMENT", "status", `status must be one of busy, idle, offline, got the number 1`},
		{"list is a string", wait, `{"task_ids":"a"}`, "INVALID_ARGUMENT", "task_ids", `task_ids must be a list, got the string "a"`},
		{"item of wrong type", wait, `{"task_ids":["a",2]}`, "INVALID_ARGUMENT", "task_ids[1]", `task_ids[1] must be a string, got the number 2`},
		{"item is null", wait, `{"task_ids":[null]}`, "INVALID_ARGUMENT", "task_ids[0]", `task_ids[0] must be a string, got null`},
		{"bool is a string", &fleetv1.WatchFleetRequest{}, `{"follow":"yes"}`, "INVALID_ARGUMENT", "follow", `follow must be true or false, got the string "yes"`},
		{"time is a number", tasks, `{"since":1}`, "INVALID_ARGUMENT", "since", `since must be a string, got the number 1`},
		{"time is a word", tasks, `{"since":"today"}`, "INVALID_ARGUMENT", "since", `since must be a time like 2026-11-22T10:30:00Z, got "today"`},
		{"time is too fine", tasks, `{"since":"2025-10-29T10:00:00.0000000001Z"}`, "INVALID_ARGUMENT", "since", `since must be a time like`},
		{"time is too early", tasks, `{"since":"0000-10-29T10:00:00Z"}`, "INVALID_ARGUMENT", "since", `since must be a time like`},
		{"texts are a list", create, `{"parameters":["a"]}`, "INVALID_ARGUMENT", "parameters", `parameters must be an object whose values are strings, got a list`},
		{"a text is a number", create, `{"parameters":{"size":3}}`, "INVALID_ARGUMENT", "parameters", `parameters must be an object whose values are strings, got the number 3`},
		{"a text twice", create, `{"parameters":{"size":"3","size":"4"}}`, "INVALID_ARGUMENT", "parameters", `parameters has the key "size" twice; give it once`},
		{"object is a string", run, `{"context":"a"}`, "INVALID_ARGUMENT", "context", `context must be an object, got the string "a"`},
		{"key of an object twice", run, `{"context":{"a":{"k":1,"k":2}}}`, "INVALID_ARGUMENT", "context", `context has the key "k" twice; give it once`},
		{"number in an object is huge", run, `{"context":{"a":1e999}}`, "INVALID_ARGUMENT", "context", `context has a number that is too large: 1e999`},
		{"deep object", run, `{"context":` + strings.Repeat(`{"a":`, 64) + `1` + strings.Repeat("}", 65), "INVALID_ARGUMENT", "", `the JSON is nested deeper than 64 levels; send a flat object`},
		{"message is a string", start, `{"attachments":["a"]}`, "INVALID_ARGUMENT", "attachments[0]", `attachments[0] must be an object, got the string "a"`},
		{"message is null", start, `{"attachments":[{},null]}`, "INVALID_ARGUMENT", "attachments[1]", `attachments[1] must be an object, got null`},
		{"messages are an object", start, `{"attachments":{"name":"a"}}`, "INVALID_ARGUMENT", "attachments", `attachments must be a list, got an object`},
		{"field of a message", start, `{"attachments":[{},{"name":1}]}`, "INVALID_ARGUMENT", "attachments[1].name", `attachments[1].name must be a string, got the number 1`},
		{"unknown field of a message", start, `{"attachments":[{"nam":1}]}`, "INVALID_ARGUMENT", "attachments[0].nam", `unknown field "attachments[0].nam": did you mean "name"?`},
		{"field of a message twice", start, `{"attachments":[{"name":"a","name":"a"}]}`, "INVALID_ARGUMENT", "attachments[0].name", `the field "attachments[0].name" is given twice; give it once`},
		{"field after a message", start, `{"attachments":[{"name":"a"}],"agent_name":1}`, "INVALID_ARGUMENT", "agent_name", `agent_name must be a string, got the number 1`},
		{"deep message", start, `{"attachments":[{"name":` + strings.Repeat("[", 62) + strings.Repeat("]", 62) + `}]}`, "INVALID_ARGUMENT", "", `the JSON is nested deeper than 64 levels; send a flat object`},
		{"message is cut off", start, `{"attachments":[{"name":"a"`, "INVALID_ARGUMENT", "", `the JSON ends too early`},
		{"bytes are a number", start, `{"attachments":[{"content":1}]}`, "INVALID_ARGUMENT", "attachments[0].content", `attachments[0].content must be a string in base64, got the number 1`},
		{"bytes are a text", start, `{"attachments":[{"content":"a text"}]}`, "INVALID_ARGUMENT", "attachments[0].content", `attachments[0].content must be a string in base64, got "a text"`},
		{"bytes with too much padding", start, `{"attachments":[{"content":"aGk=="}]}`, "INVALID_ARGUMENT", "attachments[0].content", `attachments[0].content must be a string in base64, got "aGk=="`},
		{"number is a string", output, `{"offset":"1"}`, "INVALID_ARGUMENT", "offset", `offset must be a number, got the string "1"`},
		{"number is huge", output, `{"offset":1e999}`, "INVALID_ARGUMENT", "offset", `offset is too large: 1e999`},
		{"text in quotes for 64 bits", download, `{"offset":"x"}`, "INVALID_ARGUMENT", "offset", `offset must be a whole number, got the string "x"`},
		{"more than 64 bits", download, `{"offset":9223372036854775808}`, "INVALID_ARGUMENT", "offset", `offset must be a whole number from -9223372036854775808 to 9223372036854775807, got 9223372036854775808`},
		{"nearly a whole number", download, `{"offset":1.00000000000000000000000001}`, "INVALID_ARGUMENT", "offset", `offset must be a whole number, got 1.00000000000000000000000001`},
		{"tiny fraction", download, `{"offset":1e-9223372036854775808}`, "INVALID_ARGUMENT", "offset", `offset must be a whole number, got 1e-9223372036854775808`},
		{"a list", list, `[]`, "INVALID_ARGUMENT", "", `expected a JSON object with the fields of the request, got a list`},
		{"a list with a huge number", list, `[1e999]`, "INVALID_ARGUMENT", "", `the JSON has a number that is too large: 1e999`},
		{"a list with a key twice", list, `[{"k":1,"k":2}]`, "INVALID_ARGUMENT", "", `the JSON has the key "k" twice; give it once`},
		{"unknown field twice", list, `{"x":1,"x":2}`, "INVALID_ARGUMENT", "x", `unknown field "x": the known fields are project`},
		{"field without a name", list, `{"":[1e999]}`, "INVALID_ARGUMENT", "", `unknown field "": the known fields are project`},
		{"a string", list, `"x"`, "INVALID_ARGUMENT", "", `expected a JSON object with the fields of the request, got the string "x"`},
		{"cut off", list, `{"page":1`, "INVALID_ARGUMENT", "", `the JSON ends too early`},
		{"not JSON", list, `{page:1}`, "INVALID_ARGUMENT", "", `the JSON is not valid at byte `},
		{"two objects", list, `{} {}`, "INVALID_ARGUMENT", "", `there is more after the end of the JSON object; send one object`},
		{"comma at the end", list, `{"page":1,}`, "INVALID_ARGUMENT", "", `the JSON is not valid at byte 10: '}' cannot be here`},
		{"no comma", list, `{"page":1 "page_size":1}`, "INVALID_ARGUMENT", "", `the JSON is not valid at byte 10: '"' cannot be here`},
		{"no colon", list, `{"page" 1}`, "INVALID_ARGUMENT", "", `the JSON is not valid at byte 8: '1' cannot be here`},
		{"leading zero", list, `{"page":01}`, "INVALID_ARGUMENT", "", `the JSON is not valid at byte 9: '1' cannot be here`},
		{"unknown word", list, `{"page":nil}`, "INVALID_ARGUMENT", "", `the JSON is not valid at byte 8: 'n' cannot be here`},
		{"unknown escape", create, `{"name":"\x"}`, "INVALID_ARGUMENT", "", `the JSON is not valid at byte 10: 'x' cannot be here`},
		{"cut off in an escape", create, `{"name":"\u00`, "INVALID_ARGUMENT", "", `the JSON ends too early`},
		{"line break in a text", create, "{\"name\":\"a\nb\"}", "INVALID_ARGUMENT", "", `the JSON is not valid at byte 10: '\n' cannot be here`},
		{"invalid UTF-8", create, "{\"name\":\"a\xff\"}", "INVALID_ARGUMENT", "", `the JSON is not valid UTF-8 at byte 10; send UTF-8`},
		{"half a surrogate pair", create, `{"name":"\ud800"}`, "INVALID_ARGUMENT", "", `the JSON cannot be read: `},
		{"deep", list, `{"page":` + strings.Repeat("[", 100000) + strings.Repeat("]", 100000) + `}`, "INVALID_ARGUMENT", "", `the JSON is nested deeper than 64 levels; send a flat object`},
		{"long key", list, `{"` + strings.Repeat("é", 1000) + `":1}`, "INVALID_ARGUMENT", strings.Repeat("é", 50) + "...", `unknown field "`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := wire.Unmarshal([]byte(c.json), c.message.ProtoReflect().New().Interface())
			require.Error(t, err)
			s := status.Convert(err)
			require.Equal(t, codes.InvalidArgument, s.Code())
			require.Contains(t, s.Message(), c.text)
			require.NotContains(t, s.Message(), "proto:")
			info, bad := detailsOf(t, s)
			require.Equal(t, c.reason, info.GetReason())
			require.Equal(t, "fleet", info.GetDomain())
			require.Equal(t, c.field, info.GetMetadata()["field"])
			if c.field != "" {
				require.Len(t, bad.GetFieldViolations(), 1)
				require.Equal(t, c.field, bad.GetFieldViolations()[0].GetField())
			}
		})
	}
}

func detailsOf(t *testing.T, s *status.Status) (info *errdetails.ErrorInfo, bad *errdetails.BadRequest) {
	t.Helper()
	for _, d := range s.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			info = d
		case *errdetails.BadRequest:
			bad = d
		default:
			t.Fatalf("unexpected detail %T", d)
		}
	}
	return info, bad
}
