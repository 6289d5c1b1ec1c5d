package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/service"
)

// jsonLog is a writer that keeps a JSON log.
type jsonLog struct{ lockedBuffer }

// linesWithMessage returns the lines of the log with the message, without their times.
func (l *jsonLog) linesWithMessage(t *testing.T, message string) (lines []map[string]any) {
	t.Helper()
	for text := range bytes.Lines(l.Bytes()) {
		var line map[string]any
		require.NoError(t, json.Unmarshal(text, &line))
		if line["msg"] == message {
			delete(line, "time")
			lines = append(lines, line)
		}
	}
	return lines
}

// TestAudit checks that each call of a method with side effects leaves exactly one line in the log and in the stored audit log, whatever
// its result. A call without side effects leaves no line, unless its caller is unknown. No line contains secrets.
func TestAudit(t *testing.T) {
	t.Parallel()
	log := &jsonLog{}
	f := newTestFleet(t, fleetConfig{
		Tokens: map[string]tokenConfig{"alice": {}}, Options: func(o *Options) { o.Log = log }, Config: func(c *Config) { c.LogFormat = "json" },
	})
	f.call(t, "grpc", "create_agent", "alice", map[string]any{"name": "papi", "project": "Setup", "role": "coder", "spec": "secret spec", "request_id": "r-1"})
	f.call(t, "rest", "start_agent_task", "alice", map[string]any{"agent_name": "nobody", "task_description": "secret task"})
	f.call(t, "mcp", "delete_agent", "alice", map[string]any{"agent_name": "papi"})
	f.call(t, "mcp", "agent_start", "alice", map[string]any{"contract": "secret contract"})
	f.call(t, "grpc", "invoke_agent", "alice", map[string]any{"agent": "no such", "message": "secret message"})
	f.call(t, "rest", "create_token", "alice", map[string]any{"name": "mallory"})
	f.call(t, "rest", "list_agents", "alice", nil)

	lines := log.linesWithMessage(t, "audit")
	var got []string
	for _, l := range lines {
		require.Equal(t, "alice", l["principal"])
		require.Equal(t, "INFO", l["level"])
		require.NotEmpty(t, l["remote"])
		id, _ := l["request_id"].(string)
		target, _ := l["target"].(string)
		if l["method"] == "AgentStart" {
			require.NotEmpty(t, target, "the line must name the created objects")
			target = "made"
		}
		got = append(got, strings.TrimSpace(l["face"].(string)+" "+l["method"].(string)+" "+target+" "+l["outcome"].(string)+" "+id))
	}
	require.Equal(t, []string{
		"grpc CreateAgent papi ok r-1",
		"rest StartAgentTask nobody AGENT_NOT_FOUND",
		"mcp DeleteAgent papi ok",
		"mcp AgentStart made ok",
		"grpc InvokeAgent no such AGENT_NOT_FOUND",
		"rest CreateToken mallory PERMISSION_DENIED",
	}, got)
	require.NotContains(t, log.String(), "secret")

	require.Equal(t, "UNAUTHENTICATED", f.call(t, "rest", "list_agents", "a-wrong-token", nil).err.Reason)
	stored, _, err := f.service.ListAudit(t.Context(), service.ListAuditRequest{})
	require.NoError(t, err)
	storedLines := make([]string, len(stored))
	for i, e := range stored {
		require.NotContains(t, fmt.Sprint(e), "secret")
		require.NotContains(t, fmt.Sprint(e), "a-wrong-token")
		require.NotEmpty(t, e.Remote)
		if e.Method == "AgentStart" {
			e.Target = "made"
		}
		storedLines[len(stored)-1-i] = strings.TrimSpace(e.Face + " " + e.Method + " " + e.Target + " " + e.Outcome + " " + e.RequestID)
	}
	require.ElementsMatch(t, append(got, "rest ListAgents  UNAUTHENTICATED"), storedLines)
}

// TestFailedLogins checks that the audit log counts all failed logins, and has lines of their own only for the first
// few.
func TestFailedLogins(t *testing.T) {
	t.Parallel()
	log := &jsonLog{}
	f := newTestFleet(t, fleetConfig{
		Tokens: map[string]tokenConfig{"alice": {}}, Options: func(o *Options) { o.Log = log }, Config: func(c *Config) { c.LogFormat = "json" },
	})
	const perFace = 20
	for range perFace {
		for _, face := range []string{"grpc", "rest"} {
			require.Equal(t, "UNAUTHENTICATED", f.call(t, face, "list_agents", "not-a-token", nil).err.Reason)
		}
		f.post(t, "/mcp", "Bearer not-a-token", listAgentsTool)
	}
	require.NoError(t, f.stop())
	singleLines := log.linesWithMessage(t, "login failed")
	var countedFailures float64
	for _, l := range log.linesWithMessage(t, "logins failed, not logged one by one") {
		n, _ := l["count"].(float64)
		countedFailures += n
	}
	require.InDelta(t, 3*perFace, float64(len(singleLines))+countedFailures, 0)
	require.Less(t, len(singleLines), 3*perFace)
	require.Equal(t, "ListAgents", singleLines[0]["method"])
	require.Equal(t, "UNAUTHENTICATED", singleLines[0]["outcome"])
	require.NotEmpty(t, singleLines[0]["remote"])
	require.NotContains(t, log.String(), "not-a-token")
}

// TestFailedCalls checks that the audit log counts all failed calls, and has lines of their own only for the first hundred
// of a principal. Calls that change something always have a line.
func TestFailedCalls(t *testing.T) {
	t.Parallel()
	log := &jsonLog{}
	f := newTestFleet(t, fleetConfig{
		Tokens:  map[string]tokenConfig{"reader": {Scope: "read"}, "alice": {}},
		Options: func(o *Options) { o.Log = log }, Config: func(c *Config) { c.LogFormat = "json" },
	})
	create := func(caller, name string) reply {
		return f.call(t, "grpc", "create_agent", caller, map[string]any{"name": name, "project": "Setup", "spec": "x"})
	}
	const calls = 150
	for range calls {
		require.Equal(t, "PERMISSION_DENIED", create("reader", "papi").err.Reason)
	}
	require.Nil(t, create("alice", "papi").err)
	require.NoError(t, f.stop())
	caller := map[any]int{}
	for _, l := range log.linesWithMessage(t, "audit") {
		caller[l["principal"]]++
	}
	var countedFailures float64
	for _, l := range log.linesWithMessage(t, "calls failed, not logged one by one") {
		require.Equal(t, []any{"CreateAgent", "reader", "PERMISSION_DENIED"}, []any{l["method"], l["principal"], l["outcome"]})
		n, _ := l["count"].(float64)
		countedFailures += n
	}
	require.Equal(t, 1, caller["alice"])
	require.Less(t, caller["reader"], calls)
	require.InDelta(t, calls, float64(caller["reader"])+countedFailures, 0)
}
