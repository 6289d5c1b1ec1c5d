package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/store/postgres/pgtest"
)

func TestEveryRowIsMeasured(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	o := options{only: regexp.MustCompile(""), rounds: 1, each: 1, listed: 3, agents: 20, watchers: 3, events: 2, clients: 2}
	require.NoError(t, caught(func() { (&report{options: o, out: &out}).all(t.Context()) }))
	for _, row := range []string{
		"gRPC", "bare grpc-go", "REST", "bare net/http", "REST, 304", "MCP", "bare mcp-go", "gRPC, changed", "agent_status", "start_agent_task", "agent_start",
	} {
		require.Regexp(t, `(?m)^ *`+row+`  +[1-9]`, out.String())
	}
	for _, goal := range []string{"gRPC, of bare grpc-go", "of an idle agent", "of a watcher", "to each of 3 watchers", "agent_status, p99", "start_agent_task, p99", "agent_start, p99"} {
		require.Regexp(t, `(?m)^.*`+goal+`.*  (met|not met)$`, out.String())
	}
	require.NotContains(t, out.String(), "NaN")
}

func TestLargeStoreIsMeasured(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	r := &report{options: options{only: regexp.MustCompile(""), rounds: 1, each: 1}, out: &out}
	require.NoError(t, caught(func() {
		r.scale(t.Context(), 2000, "")
		r.printGoals()
	}))
	for _, row := range []string{"list_agents, any page", "list_tasks, cursor to the middle", "list_tasks, word of any frequency", "search_fleet", "show_usage by project"} {
		require.Regexp(t, `(?m)^ *SQLite: `+row+`  +[1-9]`, out.String())
	}
	require.Regexp(t, `(?m)^SQLite: second start, s .*met$`, out.String())
	require.NotContains(t, out.String(), "NaN")
}

// TestReplicasAreMeasured skips the check that the data is on a disk.
func TestReplicasAreMeasured(t *testing.T) {
	t.Parallel()
	pgtest.Need(t)
	var out strings.Builder
	o := options{only: regexp.MustCompile("replicas: 2|pgbench"), rounds: 1, each: 1, agents: 200, watchers: 3, events: 2, clients: 2}
	o.startDatabase = func() (*pgtest.Server, error) { return pgtest.Start("") }
	require.NoError(t, caught(func() { (&report{options: o, out: &out}).all(t.Context()) }))
	for _, row := range []string{
		"start_agent_task, replicas: 2", "agent_start, replicas: 2", "pgbench start.sql, connections: 32", "task until its end, replicas: 2", "pgbench task.sql, connections: 32",
	} {
		require.Regexp(t, `(?m)^ *`+row+`  +[1-9]`, out.String())
	}
	for _, goal := range []string{"start_agent_task, replicas: 2, of pgbench", "task until its end, replicas: 2, of pgbench", "to each of 3 watchers, p99 ms from the call, replicas: 2"} {
		require.Regexp(t, `(?m)^.*`+goal+`.*  (met|not met)$`, out.String())
	}
	require.NotContains(t, out.String(), "NaN")
}
