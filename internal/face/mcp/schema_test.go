package mcp_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"

	"fleet/internal/face/mcp"
)

type listedTool struct {
	Name, Title, Description  string
	InputSchema, OutputSchema json.RawMessage
	Annotations               map[string]any
}

func listTools(t *testing.T, url string) map[string]listedTool {
	t.Helper()
	var r struct{ Tools []listedTool }
	require.NoError(t, json.Unmarshal(post(t, url, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`).Result, &r))
	tools := map[string]listedTool{}
	for _, l := range r.Tools {
		tools[l.Name] = l
	}
	return tools
}

func compileSchema(t *testing.T, name string, schema []byte) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(schema)))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource(name, doc))
	s, err := c.Compile(name)
	require.NoError(t, err)
	return s
}

func TestToolsAreAcceptedByClients(t *testing.T) {
	t.Parallel()
	tools := listTools(t, serve(t, newStub(), mcp.Config{Tools: []string{"*"}}).URL+"/mcp")
	methods := 0
	toolMethods(func(_ string, m protoreflect.MethodDescriptor) {
		if m.Parent().Name() == "FleetService" {
			methods++
		}
	}, func(string) {})
	require.Len(t, tools, methods)
	for name, l := range tools {
		require.Regexp(t, `^[a-z][a-z_]{0,63}$`, name)
		require.NotEmpty(t, l.Title)
		require.NotEmpty(t, l.Description)
		for _, hint := range []string{"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint", "title"} {
			require.Contains(t, l.Annotations, hint, name)
		}
		require.Equal(t, false, l.Annotations["openWorldHint"])
		require.Equal(t, slices.Contains([]string{"delete_agent", "delete_budget", "delete_pool", "delete_schedule", "delete_task", "delete_webhook", "forget_replica", "prune_work", "unshare_agent"}, name), l.Annotations["destructiveHint"])
		for kind, schema := range map[string]json.RawMessage{"input": l.InputSchema, "output": l.OutputSchema} {
			compileSchema(t, name+"-"+kind, schema)
			var top map[string]any
			require.NoError(t, json.Unmarshal(schema, &top))
			require.Equal(t, "object", top["type"])
			require.NotContains(t, top, "anyOf")
			require.NotContains(t, top, "oneOf")
			require.NotContains(t, string(schema), "unspecified")
			if kind == "input" {
				require.Equal(t, false, top["additionalProperties"])
			}
		}
	}
}

func TestResultsFollowTheirSchema(t *testing.T) {
	t.Parallel()
	s := newStub()
	s.logEvent("papi", "hello")
	ts := serve(t, s, mcp.Config{})
	tools := listTools(t, ts.URL+"/mcp")
	for _, c := range [][2]string{
		{"create_agent", `{"name":"papi","project":"p","spec":"s"}`},
		{"list_agents", `{}`},
		{"show_agent", `{"agent_name":"papi"}`},
		{"watch_fleet", `{}`},
		{"watch_fleet", `{"cursor":"now"}`},
	} {
		r := post(t, ts.URL+"/mcp", call(1, c[0], c[1], "")).result(t)
		require.False(t, r.IsError)
		require.JSONEq(t, r.Content[0].Text, string(r.StructuredContent))
		content, err := jsonschema.UnmarshalJSON(strings.NewReader(string(r.StructuredContent)))
		require.NoError(t, err)
		require.NoError(t, compileSchema(t, c[0], tools[c[0]].OutputSchema).Validate(content), string(r.StructuredContent))
	}
}

func TestInputSchemasMatchServer(t *testing.T) {
	t.Parallel()
	tools := listTools(t, serve(t, newStub(), mcp.Config{Tools: []string{"*"}}).URL+"/mcp")
	for _, c := range []struct {
		tool, arguments string
		ok              bool
	}{
		{"create_agent", `{"name":"papi","project":"p","spec":"s"}`, true},
		{"create_agent", `{"name":"papi","project":"p"}`, false},
		{"create_agent", `{"name":"a--b","project":"p","spec":"s"}`, false},
		{"create_agent", `{"name":"` + strings.Repeat("a", 21) + `","project":"p","spec":"s"}`, false},
		{"create_agent", `{"name":"papi","project":"p","spec":"s","x":1}`, false},
		{"list_agents", `{"status":"idle","page":1,"page_size":1000000000}`, true},
		{"list_agents", `{"status":"Idle"}`, false},
		{"list_agents", `{"page":0}`, false},
		{"list_agents", `{"page":"1"}`, false},
		{"wait_tasks", `{"task_ids":[]}`, false},
		{"wait_tasks", `{"task_ids":["a"],"timeout_seconds":51}`, false},
		{"wait_tasks", `{"task_ids":["a"],"timeout_seconds":50,"mode":"any"}`, true},
	} {
		arguments, err := jsonschema.UnmarshalJSON(strings.NewReader(c.arguments))
		require.NoError(t, err)
		err = compileSchema(t, c.tool, tools[c.tool].InputSchema).Validate(arguments)
		require.Equal(t, c.ok, err == nil, fmt.Sprint(c.arguments, err))
	}
}

// TestEveryToolsetIsServed checks that every service that names a toolset is served.
func TestEveryToolsetIsServed(t *testing.T) {
	t.Parallel()
	ts := serve(t, newStub(), mcp.Config{Tools: []string{"*"}})
	methods := map[string]int{}
	toolMethods(func(set string, _ protoreflect.MethodDescriptor) { methods[set]++ }, func(set string) {
		require.Len(t, listTools(t, ts.URL+"/mcp/"+set), methods[set], set)
	})
}
