package cli

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	fleetv1 "fleet/gen/fleet/v1"
)

// PlanBulk makes a plan for all agents.
func (s *stub) PlanBulk(_ context.Context, r *fleetv1.PlanBulkRequest) (*fleetv1.PlanBulkResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plan = proto.CloneOf(r)
	resp := &fleetv1.PlanBulkResponse{PlanId: "plan-1", Message: "The plan", TotalCount: int32(len(s.agents))}
	for _, name := range slices.Sorted(maps.Keys(s.agents)) {
		resp.Items = append(resp.Items, &fleetv1.BulkItem{AgentName: name, Owner: "local", Outcome: fleetv1.BulkItem_pending, Effect: "changes"})
	}
	return resp, nil
}

// RunBulk runs a plan to delete all agents. It never finishes other plans.
func (s *stub) RunBulk(ctx context.Context, _ *fleetv1.RunBulkRequest) (*fleetv1.RunBulkResponse, error) {
	s.mu.Lock()
	plan, names := s.plan, slices.Sorted(maps.Keys(s.agents))
	s.mu.Unlock()
	resp := &fleetv1.RunBulkResponse{TotalCount: int32(len(names)), Message: "Done"}
	if plan.GetOperation() != fleetv1.PlanBulkRequest_delete {
		resp.Unfinished = new(true)
		return resp, nil
	}
	for _, name := range names {
		item := &fleetv1.BulkItem{AgentName: name, Owner: "local", Outcome: fleetv1.BulkItem_done, Message: new("deleted")}
		resp.Items = append(resp.Items, item)
		if _, err := s.DeleteAgent(ctx, &fleetv1.DeleteAgentRequest{AgentName: name, KeepUnsaved: &plan.KeepUnsaved}); err != nil {
			item.Outcome, item.Reason, item.Message = fleetv1.BulkItem_failed, new(reasonOf(err)), new(status.Convert(err).Message())
			resp.FailedCount++
		}
	}
	resp.DoneCount = resp.TotalCount - resp.FailedCount
	return resp, nil
}

// TestBulkDeleteAsksBeforeWorkIsLost checks that a selection of agents is asked about like named ones: again for each agent with work
// that exists only in its workspace.
func TestBulkDeleteAsksBeforeWorkIsLost(t *testing.T) {
	t.Parallel()
	s, server, _ := stubWithAgent(t)
	s.unsavedWork = "three commits exist only there"
	for answer, want := range map[string]int{"n": ExitError, "y": ExitOK} {
		mustRun(t, server, "agent", "create", "papi", "--project", "shell", "--spec", "x")
		screen, keys, wait := runOnTerminal(t, server, "", "agent", "delete", "--all")
		screen.await(t, "1 agent? [y/N] ")
		typeKeys(t, keys, "y\n")
		screen.await(t, "papi: three commits exist only there")
		screen.await(t, "anyway? [y/N] ")
		typeKeys(t, keys, answer+"\n")
		require.Equal(t, want, wait(), screen.String())
		_, exists := s.agents["papi"]
		require.Equal(t, answer == "n", exists, screen.String())
	}
	mustRun(t, server, "agent", "create", "papi", "--project", "shell", "--spec", "x")
	mustRun(t, server, "agent", "delete", "--all", "--yes")
	require.Empty(t, s.agents, "--yes deletes agents with such work too")
}

// TestBulkFlags checks that --wait 0 does not wait, that --yes is refused if it is for named agents only, and that programs get one error
// object, which names the plan.
func TestBulkFlags(t *testing.T) {
	t.Parallel()
	s, server, _ := stubWithAgent(t)
	for _, wait := range []string{"0", "-1s"} {
		c := newCommand(server)
		require.Equal(t, ExitTimeout, waitForExit(t, c.start("agent", "stop", "--all", "--yes", "--wait", wait)))
		require.Contains(t, c.stderr.String(), `go on with "fleet bulk run plan-1"`)
	}

	_, stderr, code := runFleet(server, "agent", "start", "--all", "--yes")
	require.Equal(t, ExitUsage, code)
	require.Contains(t, stderr, "--yes works for named agents only")

	var e struct {
		Error   string
		Details map[string]any
	}
	_, stderr, code = runFleet(server, "agent", "stop", "--all", "-o", "json")
	require.Equal(t, ExitUsage, code)
	require.NoError(t, json.Unmarshal([]byte(stderr), &e), stderr)
	require.Equal(t, "USAGE", e.Error)

	s.beforeUnary = func(_ context.Context, method string, _ any) error {
		if strings.HasSuffix(method, "/RunBulk") {
			return status.Error(codes.Unavailable, "the connection broke")
		}
		return nil
	}
	c := newCommand(server)
	c.reconnectTime = 1 // nanosecond
	require.Equal(t, ExitUnavailable, c.run("agent", "stop", "--all", "--yes", "-o", "json"))
	require.NoError(t, json.Unmarshal([]byte(c.stderr.String()), &e), c.stderr.String())
	require.Equal(t, "plan-1", e.Details["plan_id"])
}
