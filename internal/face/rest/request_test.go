package rest

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	fleetv1 "fleet/gen/fleet/v1"
)

func TestGoodRequests(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		method, target, body string
		headers              []string
		want                 proto.Message
	}{
		"query": {
			method: "GET", target: "/v1/agents?status=idle&page=2&page_size=1000000000&project=My%20Project&role=%22",
			want: &fleetv1.ListAgentsRequest{
				Status: fleetv1.Agent_idle, Page: proto.Int32(2), PageSize: proto.Int32(1000000000), Project: "My Project", Role: `"`,
			},
		},
		"query beside a path": {
			method: "GET", target: "/v1/agents/papi/tasks?page=-1",
			want: &fleetv1.ShowAgentTaskHistoryRequest{AgentName: "papi", Page: proto.Int32(-1)},
		},
		"boolean": {
			method: "GET", target: "/v1/tasks/t1?include_payload=true",
			want: &fleetv1.ShowTaskRequest{TaskId: "t1", IncludePayload: true},
		},
		"delete": {
			method: "DELETE", target: "/v1/agents/papi?request_id=r1",
			want: &fleetv1.DeleteAgentRequest{AgentName: "papi", RequestId: "r1"},
		},
		"no body where nothing is required": {
			method: "POST", target: "/v1/agents/papi/tasks:stop",
			want: &fleetv1.StopAgentTaskRequest{AgentName: "papi"},
		},
		"the content type of a form without a body, as curl -d '' sends it": {
			method: "POST", target: "/v1/agents/papi:start", headers: []string{"Content-Type", "application/x-www-form-urlencoded"},
			want: &fleetv1.StartAgentRequest{AgentName: "papi"},
		},
		"the path's name in the body too": {
			method: "POST", target: "/v1/agents/papi/tasks", body: `{"agent_name":"papi","task_description":"x","timeout_seconds":5}`,
			want: &fleetv1.StartAgentTaskRequest{AgentName: "papi", TaskDescription: "x", TimeoutSeconds: proto.Int32(5)},
		},
		"enum and list": {
			method: "POST", target: "/v1/tasks:wait", body: `{"task_ids":["a","b"],"mode":"any","timeout_seconds":0}`,
			headers: []string{"Content-Type", "application/json; charset=utf-8"},
			want:    &fleetv1.WaitTasksRequest{TaskIds: []string{"a", "b"}, Mode: fleetv1.WaitTasksRequest_any, TimeoutSeconds: proto.Int32(0)},
		},
		"null counts as not given": {
			method: "POST", target: "/v1/agents", body: ` {"name":"papi","project":"p","role":null,"spec":"s"} `,
			want: &fleetv1.CreateAgentRequest{Name: "papi", Project: "p", Spec: "s"},
		},
		"token": {
			method: "POST", target: "/v1/tokens", body: `{"name":"bot","kind":"controller","ttl_seconds":60}`,
			want: &fleetv1.CreateTokenRequest{Name: "bot", Kind: fleetv1.Token_controller, TtlSeconds: 60},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStub()
			s.answerUnary = func(method string, _ proto.Message) (proto.Message, error) { return emptyAnswer(method) }
			w := serve(newTestFace(t, s, Config{}), c.method, c.target, c.body, c.headers...)
			require.Equal(t, http.StatusOK, w.Code, w.Body.String())
			require.True(t, proto.Equal(c.want, s.request), "want %v, got %v", c.want, s.request)
		})
	}
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		method, target, body string
		headers              []string
		status               int // 400 when not given
		reason               string
		field                string
		messageParts         []string
	}{
		"unknown parameter":      {method: "GET", target: "/v1/agents?stauts=idle", reason: "INVALID_ARGUMENT", field: "stauts", messageParts: []string{`did you mean "status"`}},
		"camelCase parameter":    {method: "GET", target: "/v1/agents?pageSize=1", reason: "INVALID_ARGUMENT", field: "pageSize", messageParts: []string{`"page_size"`}},
		"far parameter":          {method: "GET", target: "/v1/agents?verbosity=1", reason: "INVALID_ARGUMENT", field: "verbosity", messageParts: []string{"project, role, status, page, page_size"}},
		"no parameters":          {method: "GET", target: "/v1/tokens?x=1", reason: "INVALID_ARGUMENT", field: "x", messageParts: []string{"takes none"}},
		"nested parameter":       {method: "GET", target: "/v1/agents?page.value=1", reason: "INVALID_ARGUMENT", field: "page.value", messageParts: []string{"unknown"}},
		"bracket parameter":      {method: "GET", target: "/v1/agents?page[1]=1", reason: "INVALID_ARGUMENT", field: "page[1]", messageParts: []string{"unknown"}},
		"parameter of the path":  {method: "GET", target: "/v1/agents/papi/tasks?agent_name=sony", reason: "INVALID_ARGUMENT", field: "agent_name", messageParts: []string{"in the path already"}},
		"parameter for the body": {method: "POST", target: "/v1/agents?name=papi", body: "{}", reason: "INVALID_ARGUMENT", field: "name", messageParts: []string{"in the body"}},
		"unknown beside a body":  {method: "POST", target: "/v1/agents?x=papi", body: "{}", reason: "INVALID_ARGUMENT", field: "x", messageParts: []string{"takes none"}},
		"page x":                 {method: "GET", target: "/v1/agents/papi/tasks?page=x", reason: "INVALID_PAGE", field: "page", messageParts: []string{"whole number", `"x"`}},
		"page empty":             {method: "GET", target: "/v1/agents/papi/tasks?page=", reason: "INVALID_PAGE", field: "page"},
		"page with a fraction":   {method: "GET", target: "/v1/agents/papi/tasks?page=1.5", reason: "INVALID_PAGE", field: "page"},
		"page with an exponent":  {method: "GET", target: "/v1/agents/papi/tasks?page=1e9", reason: "INVALID_PAGE", field: "page"},
		"page too large":         {method: "GET", target: "/v1/agents/papi/tasks?page=99999999999", reason: "INVALID_PAGE", field: "page", messageParts: []string{"2147483647"}},
		"page size x":            {method: "GET", target: "/v1/agents?page_size=x", reason: "INVALID_PAGE_SIZE", field: "page_size"},
		"page twice":             {method: "GET", target: "/v1/agents?page=1&page=2", reason: "INVALID_PAGE", field: "page", messageParts: []string{"2 times"}},
		"status unknown":         {method: "GET", target: "/v1/agents?status=foo", reason: "INVALID_ARGUMENT", field: "status", messageParts: []string{"busy, idle, offline", `"foo"`}},
		"status upper case":      {method: "GET", target: "/v1/agents?status=IDLE", reason: "INVALID_ARGUMENT", field: "status", messageParts: []string{`did you mean "idle"`}},
		"status by number":       {method: "GET", target: "/v1/agents?status=2", reason: "INVALID_ARGUMENT", field: "status"},
		"status unspecified":     {method: "GET", target: "/v1/agents?status=status_unspecified", reason: "INVALID_ARGUMENT", field: "status"},
		"status empty":           {method: "GET", target: "/v1/agents?status=", reason: "INVALID_ARGUMENT", field: "status"},
		"boolean":                {method: "GET", target: "/v1/events?follow=1", reason: "INVALID_ARGUMENT", field: "follow", messageParts: []string{"true or false"}},
		"broken escape":          {method: "GET", target: "/v1/agents?project=%zz", reason: "INVALID_ARGUMENT", messageParts: []string{"query"}},
		"semicolon":              {method: "GET", target: "/v1/agents?page=1;page_size=2", reason: "INVALID_ARGUMENT", messageParts: []string{"&"}},
		"query not UTF-8":        {method: "GET", target: "/v1/agents?project=%ff", reason: "PROJECT_NOT_FOUND", field: "project", messageParts: []string{"UTF-8"}},
		"path not UTF-8":         {method: "GET", target: "/v1/agents/%ff", reason: "INVALID_ARGUMENT", field: "agent_name", messageParts: []string{"UTF-8"}},
		"path without a name":    {method: "DELETE", target: "/v1/agents/", reason: "INVALID_ARGUMENT", field: "agent_name", messageParts: []string{"no agent_name"}},
		"body on GET":            {method: "GET", target: "/v1/agents", body: "{}", reason: "INVALID_ARGUMENT", messageParts: []string{"takes no body", "page_size"}},
		"body on DELETE":         {method: "DELETE", target: "/v1/agents/papi", body: `{"request_id":"x"}`, reason: "INVALID_ARGUMENT", messageParts: []string{"request_id, keep_unsaved into the query"}},

		"no body":      {method: "POST", target: "/v1/agents", reason: "INVALID_NAME", field: "name", messageParts: []string{"name, project, spec"}},
		"blank body":   {method: "POST", target: "/v1/agents/papi/tasks", body: " \n", reason: "TASK_REQUIRED", field: "task_description", messageParts: []string{"is empty"}},
		"another name": {method: "POST", target: "/v1/agents/papi/tasks", body: `{"agent_name":"sony","task_description":"x"}`, reason: "INVALID_ARGUMENT", field: "agent_name", messageParts: []string{`"papi" in the path`, `"sony" in the body`}},
		"broken JSON":  {method: "POST", target: "/v1/agents", body: `{"name":`, reason: "INVALID_ARGUMENT", messageParts: []string{"JSON"}},
		"a form": {
			method: "POST", target: "/v1/agents", body: "name=papi", headers: []string{"Content-Type", "application/x-www-form-urlencoded"},
			status: 415, reason: "INVALID_ARGUMENT", messageParts: []string{"Content-Type: application/json"},
		},
		"an object of curl -d": {
			method: "POST", target: "/v1/agents", body: " \n{\"nmae\":\"papi\"}", headers: []string{"Content-Type", "application/x-www-form-urlencoded"},
			reason: "INVALID_ARGUMENT", field: "nmae",
		},
		"text": {
			method: "POST", target: "/v1/agents", body: "{}", headers: []string{"Content-Type", "text/plain"}, status: 415, reason: "INVALID_ARGUMENT",
		},
		"broken type": {
			method: "POST", target: "/v1/agents", body: "{}", headers: []string{"Content-Type", "a/b/c;;"}, status: 415, reason: "INVALID_ARGUMENT",
		},
		"compressed": {
			method: "POST", target: "/v1/agents", body: "{}", headers: []string{"Content-Encoding", "gzip"},
			status: 415, reason: "INVALID_ARGUMENT", messageParts: []string{"gzip"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStub()
			w := serve(newTestFace(t, s, Config{}), c.method, c.target, c.body, c.headers...)
			if c.status == 0 {
				c.status = http.StatusBadRequest
			}
			require.Equal(t, c.status, w.Code, w.Body.String())
			p := readError(t, w)
			require.Equal(t, c.reason, p.Error)
			if c.field != "" {
				require.Equal(t, c.field, p.Details["field"])
			}
			for _, words := range c.messageParts {
				require.Contains(t, p.Message, words)
			}
			for _, inside := range []string{"proto", "strconv", "json:", "runtime", "fleet.v1"} {
				require.NotContains(t, p.Message, inside)
			}
			require.Zero(t, s.calls)
		})
	}
}

func TestRouting(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		method, target string
		status         int
		allow          string
		messageParts   []string
	}{
		"near":                    {"GET", "/v1/agent", 404, "", []string{"did you mean GET /v1/agents?"}},
		"near with a name":        {"GET", "/v1/agents/papi/task", 404, "", []string{"did you mean GET /v1/agents/papi/tasks?"}},
		"near action":             {"POST", "/v1/agents/papi/tasks:stp", 404, "", []string{"did you mean POST /v1/agents/papi/tasks:stop?"}},
		"near action of an agent": {"POST", "/v1/agents/papi:stpo", 405, "DELETE, GET", []string{"did you mean POST /v1/agents/papi:stop?"}},
		"far":                     {"GET", "/wp-login.php", 404, "", []string{"/docs"}},
		"double slash":            {"GET", "//v1/agents", 404, "", nil},
		"put":                     {"PUT", "/v1/agents", 405, "GET, POST", []string{"GET and POST"}},
		"patch an agent":          {"PATCH", "/v1/agents/papi", 405, "DELETE, GET", nil},
		"post to an agent":        {"POST", "/v1/agents/papi", 405, "DELETE, GET", nil},
		"get of an action":        {"GET", "/v1/tasks:wait", 405, "POST", nil},
		"options":                 {"OPTIONS", "/v1/agents", 405, "GET, POST", nil},
		"made-up method":          {"BREW", "/v1/projects", 405, "GET", nil},
		"post to a page":          {"POST", "/openapi.json", 405, "GET, HEAD", nil},
		"action without a name":   {"POST", "/v1/agents/:stop", 404, "", nil},
		"slash at the end":        {"GET", "/v1/projects/", 404, "", []string{"/v1/projects"}},
		"escaped letters":         {"GET", "/v1/%61gents", 404, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStub()
			w := serve(newTestFace(t, s, Config{}), c.method, c.target, "")
			require.Equal(t, c.status, w.Code, w.Body.String())
			if c.allow != "" {
				require.Equal(t, c.allow, w.Header().Get("Allow"))
			}
			p := readError(t, w)
			require.Equal(t, "UNIMPLEMENTED", p.Error)
			for _, words := range c.messageParts {
				require.Contains(t, p.Message, words)
			}
			if c.status == http.StatusNotFound {
				require.Contains(t, p.Details["routes"], "GET /v1/agents/{agent_name}")
			}
			require.Zero(t, s.calls)
		})
	}
}

func TestWhichRoutesAreLists(t *testing.T) {
	t.Parallel()
	f := newTestFace(t, newStub(), Config{})
	var lists []string
	for _, rt := range f.routes {
		if rt.isList {
			lists = append(lists, rt.String())
		}
	}
	require.Contains(t, lists, "GET /v1/agents")
	require.Contains(t, lists, "GET /v1/tasks")
	require.NotContains(t, lists, "GET /v1/agents/{agent_name}")
	require.NotContains(t, lists, "GET /v1/events")
}
