package app

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// recordGolden makes TestClientsBeforeTasks write its golden file. The file was recorded by running this test in the commit 9ca3c55b,
// the last one without tasks of MCP. It must not be recorded again with a newer commit.
var recordGolden = flag.Bool("record-before-tasks", false, "record what clients without tasks of MCP get")

// change is a part of an answer that is new since the recording.
type change struct{ now, then string }

// instructionsChange is the change of the server's instructions that came with the tool run_task.
var instructionsChange = change{
	"run_task gives a task to an agent, a pool, or a new agent of a project, and waits for its end. If it goes on in the background, its result comes by itself: do not ask for it. start_agent_task needs an idle agent and returns at once.",
	"start_agent_task hands an idle agent a task and returns at once.",
}

// These are the changes of the answers to initialize and server/discover.
var (
	initializeChanges = []change{{`"prompts":{},"resources":{},`, ""}, instructionsChange}
	discoverChanges   = []change{{`"extensions":{"io.modelcontextprotocol/tasks":{}},"prompts":{},"resources":{"subscribe":true},`, ""}, instructionsChange}
)

// allowedChanges are the changes since the recording, by the name of the exchange. Nothing else may differ.
var allowedChanges = map[string][]change{
	"initialize at /mcp": initializeChanges, "initialize at /mcp/all": initializeChanges,
	"discover at /mcp": discoverChanges, "discover at /mcp/all": discoverChanges,
}

// TestClientsBeforeTasks checks that clients that do not declare the extension for tasks get the same answers as before Fleet had it,
// except for allowedChanges: from the handshake, the list of tools, and the calls of the tools that can be answered with a task.
func TestClientsBeforeTasks(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, fleetConfig{Tokens: map[string]tokenConfig{"alice": {}}}, step{Agent: "papi", Caller: "alice"})
	e := &exchanges{testFleet: f}

	for _, path := range []string{"/mcp", "/mcp/all"} {
		e.record(t, "initialize at "+path, path, nil, "initialize", map[string]any{"protocolVersion": "2025-11-25", "capabilities": map[string]any{"elicitation": map[string]any{}}, "clientInfo": map[string]any{"name": "old", "version": "1"}})
		e.recordModern(t, "discover at "+path, path, "server/discover", "", map[string]any{}, withoutForms)
		e.recordTools(t, path)
	}
	clients := map[string]func(t *testing.T, tool string, args map[string]any){
		"legacy": func(t *testing.T, tool string, args map[string]any) {
			t.Helper()
			e.record(t, "legacy "+tool, "/mcp/all", nil, "tools/call", map[string]any{"name": tool, "arguments": args})
		},
		"modern": func(t *testing.T, tool string, args map[string]any) {
			t.Helper()
			e.recordModern(t, "modern "+tool, "/mcp/all", "tools/call", tool, map[string]any{"name": tool, "arguments": args}, withoutForms)
		},
		"forms": func(t *testing.T, tool string, args map[string]any) { // such as claude -p
			t.Helper()
			e.recordModern(t, "forms "+tool, "/mcp/all", "tools/call", tool, map[string]any{"name": tool, "arguments": args}, withForms)
		},
	}
	for _, name := range []string{"legacy", "modern", "forms"} {
		call := clients[name]
		f.prepare(t, step{Call: "create_agent_session", With: map[string]any{"agent": "echo"}, Caller: "alice", Save: map[string]string{"session": "agent_session_id"}})
		for _, script := range []string{"say working\ndone the answer", "fail out of luck"} {
			call(t, "run_subagent", map[string]any{"agent_name": "web-search", "prompt": script})
			call(t, "execute_agent_request", map[string]any{"agent_name": "claude", "prompt": script})
			call(t, "invoke_agent", map[string]any{"agent": "echo", "message": script})
			call(t, "send_message", map[string]any{"agent_session_id": f.variables["session"], "message": script})
		}
		call(t, "execute_agent_request", map[string]any{"agent_name": "nobody", "prompt": "p"})
		call(t, "run_subagent", map[string]any{"agent_name": "web-search"})
		call(t, "send_message", map[string]any{"agent_session_id": "none", "message": "m"})

		// The tools that review and land work.
		for _, tool := range []string{"work", "more"} {
			f.prepare(t, step{Task: map[string]any{"agent_name": "papi", "task_description": "change " + name + "-" + tool + ".txt one\ndone", "ends": true}, Caller: "alice", Save: map[string]string{tool: "task.id"}})
		}
		call(t, "review_task", map[string]any{"task_id": f.variables["work"], "verdict": "approve"})
		call(t, "land_tasks", map[string]any{"task_ids": []string{f.variables["work"]}, "dry_run": true})
		call(t, "review_task", map[string]any{"task_id": f.variables["more"], "verdict": "request_changes", "text": "done"})
		call(t, "land_tasks", map[string]any{"task_ids": []string{f.variables["work"]}})
		call(t, "land_tasks", map[string]any{})
		f.prepare(t, step{Call: "show_agent", With: map[string]any{"agent_name": "papi"}, Caller: "alice", Until: map[string]any{"agent": map[string]any{"status": "idle"}}})
	}
	e.check(t)
}

const (
	withoutForms = `{"roots":{"listChanged":true},"extensions":{"io.modelcontextprotocol/ui":{}}}`
	withForms    = `{"roots":{"listChanged":true},"elicitation":{"form":{},"url":{}}}`
)

// exchanges are requests of clients without the extension, with their answers.
type exchanges struct {
	*testFleet
	names   []string // names of the exchanges, in order
	answers []string
}

// record sends a request of alice. It keeps the status, the content type and the body of the response, and returns the body.
func (e *exchanges) record(t *testing.T, name, path string, header map[string]string, method string, params map[string]any) string {
	t.Helper()
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": "r", "method": method, "params": params})
	require.NoError(t, err)
	headers := map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": e.authorization("alice")}
	maps.Copy(headers, header)
	resp, text := e.send(t, http.MethodPost, e.url(path), string(body), headers)
	e.add(name, fmt.Sprintf("%d %s\n%s", resp.StatusCode, resp.Header.Get("Content-Type"), text))
	return text
}

// add keeps an answer. If the name is already used, add gives it a number.
func (e *exchanges) add(name, answer string) {
	for n := 2; slices.Contains(e.names, name); n++ {
		name = fmt.Sprintf("%s #%d", strings.Split(name, " #")[0], n)
	}
	e.names, e.answers = append(e.names, name), append(e.answers, strings.TrimSpace(answer))
}

// recordModern is record for a client of the protocol version 2026-07-28 with the capabilities. mcpName is the value of the
// header Mcp-Name; "" means no header.
func (e *exchanges) recordModern(t *testing.T, name, path, method, mcpName string, params map[string]any, capabilities string) {
	t.Helper()
	const version = "2026-07-28"
	params["_meta"] = map[string]any{"io.modelcontextprotocol/protocolVersion": version, "io.modelcontextprotocol/clientCapabilities": json.RawMessage(capabilities)}
	h := map[string]string{"Mcp-Protocol-Version": version, "Mcp-Method": method}
	if mcpName != "" {
		h["Mcp-Name"] = mcpName
	}
	e.record(t, name, path, h, method, params)
}

// recordTools lists the tools. It keeps the tools that can be answered with a task, and instead of the other tools only the names of
// the members that tools have.
func (e *exchanges) recordTools(t *testing.T, path string) {
	t.Helper()
	text := e.record(t, "unused", path, nil, "tools/list", map[string]any{})
	e.names, e.answers = e.names[:len(e.names)-1], e.answers[:len(e.answers)-1]
	var r struct {
		Result map[string]json.RawMessage
	}
	require.NoError(t, json.Unmarshal([]byte(text), &r), text)
	var tools []map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(r.Result["tools"], &tools))
	var raw []json.RawMessage
	require.NoError(t, json.Unmarshal(r.Result["tools"], &raw))
	members := map[string]bool{}
	for i, tool := range tools {
		for k := range tool {
			members[k] = true
		}
		var name string
		require.NoError(t, json.Unmarshal(tool["name"], &name))
		if slices.Contains([]string{"run_subagent", "execute_agent_request", "invoke_agent", "send_message", "review_task", "land_tasks"}, name) {
			e.add("tool "+name+" at "+path, string(raw[i]))
		}
	}
	delete(r.Result, "tools")
	frame, err := json.Marshal(map[string]any{"result": r.Result, "members of tools": members})
	require.NoError(t, err)
	e.add("tools/list at "+path, string(frame))
}

// maskVariableParts replaces the parts that differ between two recordings.
func maskVariableParts(answer string) string {
	for _, r := range []struct{ pattern, with string }{
		{`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`, "<id>"},
		{`\b[0-9a-f]{40}\b`, "<sha>"},
		{`-[0-9a-f]{12}\b`, "-<id>"},
		{`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`, "<time>"},
		{`(duration_ms|execution_time_ms|processing_time_ms|duration|execution_time|latency_ms)(\\?"):[0-9.]+`, "$1$2:0"},
	} {
		answer = regexp.MustCompile(r.pattern).ReplaceAllString(answer, r.with)
	}
	return answer
}

// check compares the exchanges with the golden file. With the flag -record-before-tasks, it writes the file instead.
func (e *exchanges) check(t *testing.T) {
	t.Helper()
	file := filepath.Join("..", "..", "testdata", "mcp", "before_tasks.json")
	got := map[string]string{}
	for i, name := range e.names {
		got[name] = maskVariableParts(e.answers[i])
	}
	if *recordGolden {
		b, err := json.MarshalIndent(got, "", " ")
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, append(b, '\n'), 0o600))
		return
	}
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	var want map[string]string
	require.NoError(t, json.Unmarshal(b, &want))
	require.Len(t, got, len(want))
	for name, answer := range want {
		now := got[name]
		for _, c := range allowedChanges[name] {
			require.Contains(t, now, c.now, name)
			now = strings.Replace(now, c.now, c.then, 1)
		}
		require.Equal(t, answer, now, name)
	}
	for name := range allowedChanges {
		require.Contains(t, want, name)
	}
}
