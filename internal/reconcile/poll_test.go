package reconcile_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
	"fleet/internal/state"
)

// TestListingThatIsNotComplete has a workspace of which the host does not know enough yet: the fleet is not known before.
func TestListingThatIsNotComplete(t *testing.T) {
	t.Parallel()
	world := servicetest.Workspaces(2)
	world[1].Name = ""
	h := servicetest.New(t, fake.Config{Traits: fleet.Traits{Adopts: true}, Workspaces: world}, nil)
	<-h.World.Called(fake.List, 3)
	ctx, cancel := context.WithTimeout(h.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := h.ListAgents(ctx, fleet.ListAgentsRequest{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.True(t, h.Places(fleet.Principal{})[0].ObservedAt.IsZero())
}

// TestAgentOfWhichLittleIsKnown has a workspace whose host does not show its parameters: the agent is there, with the
// reason, and has its role, specification and owner once they are known.
func TestAgentOfWhichLittleIsKnown(t *testing.T) {
	t.Parallel()
	world := servicetest.Workspaces(1)
	world[0].Role, world[0].Owner, world[0].Reason = "", "fleet", "its role or specification is not known: 403"
	h := servicetest.New(t, fake.Config{Traits: fleet.Traits{Adopts: true}, Workspaces: world}, nil)
	v, err := h.ShowAgent(servicetest.AsAdmin(t.Context()), "agent-0")
	require.NoError(t, err)
	require.Equal(t, "", v.Role)
	require.Contains(t, v.StateReason, "403")
	require.Equal(t, fleet.StatusIdle, v.Status())
	_, err = h.ShowAgent(h.Context(), "agent-0")
	require.Equal(t, fleet.ReasonAgentNotFound, fleet.ReasonOf(err), "nobody knows that it is alice's")

	h.World.Describe("w-agent-0", "alice", "coder", "Be good.", "")
	h.Stored(func() bool {
		v, err = h.ShowAgent(h.Context(), "agent-0")
		return err == nil
	})
	require.Equal(t, []string{"coder", "Be good.", "alice", ""}, []string{v.Role, v.Spec, v.Owner, v.StateReason})
}

// TestNameInTwoPlaces has a workspace at its host whose name an agent of another place has: it is said that it is not shown.
func TestNameInTwoPlaces(t *testing.T) {
	t.Parallel()
	b := servicetest.Second(t, fake.Config{Traits: fleet.Traits{Adopts: true}})
	h := servicetest.New(t, fake.Config{}, nil, b)
	h.MustCreate("papi", "fake/Setup")
	b.AddWorkspace(fleet.Workspace{Name: "papi", Owner: "alice", Project: "Web"})
	h.Observed(func() bool { return strings.Contains(h.Problem(1), "1 of its workspaces are not shown") })
	_, _, err := h.DeleteAgent(h.Context(), "papi", "")
	require.NoError(t, err)
	h.Stored(func() bool {
		v, err := h.ShowAgent(h.Context(), "papi")
		return err == nil && v.Place == "second"
	})
	h.Observed(func() bool { return h.Problem(1) == "" })
}

// TestReplicaThatDoesNotPoll has one of two processes ask the host how things are: the other one knows when that was, and
// whether the host answers.
func TestReplicaThatDoesNotPoll(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, func(c *state.Config) { c.CallTimeout = 200 * time.Millisecond })
	h.Create("papi")
	other := h.Replica()
	observedAt := func(h *servicetest.Harness) time.Time { return h.Places(fleet.Principal{})[0].ObservedAt }
	other.Observed(func() bool { return !observedAt(other).IsZero() })
	first := observedAt(other)
	other.Observed(func() bool { return observedAt(other).After(first) })

	// A machine under load may list later than the limit of the calls allows, so one answer says little.
	begin := func() error {
		_, err := other.StartTask(h.Context(), service.StartTaskRequest{Agent: "papi", Description: "done"})
		return err
	}
	h.World.Fail(fake.List, 1<<30, nil)
	other.Observed(func() bool { return fleet.ReasonOf(begin()) == fleet.ReasonBackendUnavailable })
	h.World.Fail(fake.List, 0, nil)
	other.Observed(func() bool { return begin() == nil })
}

func TestAdoption(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{Traits: fleet.Traits{Name: "fake", Adopts: true}}, nil)
	h.World.AddWorkspace(fleet.Workspace{Name: "found", Owner: "alice", Project: "Setup", Role: "coder", Spec: "its spec", State: fleet.StateRunning})
	h.Stored(func() bool {
		v, err := h.ShowAgent(h.Context(), "found")
		return err == nil && v.Status() == fleet.StatusIdle && v.Spec == "its spec"
	})
	require.Equal(t, fleet.TaskCompleted, h.End(h.Start("found", "done").ID).Status)
	_, _, err := h.DeleteAgent(h.Context(), "found", "")
	require.NoError(t, err)
	listed, err := h.ListAgents(h.Context(), fleet.ListAgentsRequest{})
	require.NoError(t, err)
	require.Zero(t, listed.Total)
}
