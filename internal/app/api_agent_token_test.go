package app

import (
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/place/fake"
)

// TestAgentToken calls every method on every face with an agent's own token. The token must allow only the methods for
// agents, even on a server without other tokens, and nothing after the task has ended.
func TestAgentToken(t *testing.T) {
	t.Parallel()
	for name, tokens := range map[string]map[string]tokenConfig{"auth none": nil, "auth tokens": {"alice": {}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			endpoints := make(chan fleet.ServerEndpoint, 10)
			f := newTestFleet(t, fleetConfig{Tokens: tokens, Place: fake.Config{
				Traits: fleet.Traits{ReachesFleet: true},
				Before: func(_ context.Context, c fake.Call) error {
					if c.Method == fake.Dispatch && c.FleetEndpoint != nil {
						endpoints <- *c.FleetEndpoint
					}
					return nil
				},
			}})
			caller := ""
			if tokens != nil {
				caller = "alice"
			}
			for _, name := range []string{"self", "other"} {
				f.prepare(t, step{Call: "agent_start", With: map[string]any{"contract": "echo secret of " + name + "\nlisten"}, Caller: caller, Save: map[string]string{name: "agent_id"}})
				f.secrets[name] = (<-endpoints).Token
			}
			f.checkRefused(t)
			f.checkTools(t)
			f.checkReports(t, caller)
		})
	}
}

// checkRefused makes the agent "self" call every method that agents may not call, and checks that the calls are refused.
func (f *testFleet) checkRefused(t *testing.T) {
	t.Helper()
	for _, face := range []string{"grpc", "rest", "mcp"} {
		for _, method := range slices.Sorted(maps.Keys(methods)) {
			m := methods[method]
			if boolOption(m, fleetv1.E_ForAgents) || !offers(face, m) || toolsetOf(m) == "" {
				continue
			}
			r := f.call(t, face, method, "self", missingTarget.arguments(t, m))
			require.NotNil(t, r.err, "%s on %s", method, face)
			require.Equal(t, "PERMISSION_DENIED", r.err.Reason, "%s on %s: %s", method, face, r.err)
		}
	}
}

// checkTools checks that the list of tools for the agent "self" has exactly the tools that its token allows.
func (f *testFleet) checkTools(t *testing.T) {
	t.Helper()
	for toolset, want := range map[string][]string{
		"lifecycle": {"agent_complete", "agent_status", "append_payload"},
		"subagents": {"list_subagents", "run_subagent"},
		"fleet":     nil,
		"all":       {"agent_complete", "agent_status", "append_payload", "list_subagents", "run_subagent"},
	} {
		require.Equal(t, want, f.toolNames(t, "self", toolset), toolset)
	}
}

// checkReports makes the agent "self" report on its own task, and checks that it cannot report on the task of another agent.
func (f *testFleet) checkReports(t *testing.T, owner string) {
	t.Helper()
	for _, face := range []string{"grpc", "rest", "mcp"} {
		r := f.call(t, face, "agent_status", "self", map[string]any{"agent_ids": []any{"${self}", "${other}"}})
		require.Empty(t, mismatches(f.expandToJSON(map[string]any{"agents": []any{
			map[string]any{"status": "running"}, map[string]any{"agent_id": "${other}", "error": "<says not found>"},
		}}), r.answer))
		for method, args := range map[string]map[string]any{
			"agent_complete": {"agent_id": "${other}", "summary": "not mine"}, "append_payload": {"agent_id": "${other}", "chunk": "not mine"},
		} {
			require.Equal(t, "AGENT_NOT_FOUND", f.call(t, face, method, "self", args).err.Reason)
		}
	}
	require.Nil(t, f.call(t, "mcp", "append_payload", "self", map[string]any{"agent_id": "${self}", "chunk": "mine"}).err)
	require.Nil(t, f.call(t, "mcp", "agent_complete", "self", map[string]any{"agent_id": "${self}", "summary": "mine"}).err)
	for _, face := range []string{"grpc", "rest", "mcp"} { // the token is used again after its task has ended
		for _, method := range []string{"agent_status", "agent_complete", "list_agents"} {
			x := target{agent: "papi", task: f.variables["self"], contract: f.variables["self"], session: f.variables["self"]}
			r := f.call(t, face, method, "self", x.arguments(t, methods[method]))
			require.Equal(t, "UNAUTHENTICATED", r.err.Reason, "%s on %s", method, face)
		}
	}
	f.prepare(t, step{Call: "agent_status", With: map[string]any{"agent_ids": []any{"${self}", "${other}"}}, Caller: owner, Until: map[string]any{
		"agents": []any{map[string]any{"status": "completed", "summary": "mine"}, map[string]any{"status": "running"}},
	}})
}
