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

// TestListingThatIsNotComplete checks that calls wait, and the place counts as not listed, while a listing contains a
// workspace without a name.
func TestListingThatIsNotComplete(t *testing.T) {
	t.Parallel()
	world := servicetest.Workspaces(2)
	world[1].Name = ""
	h := servicetest.New(t, fake.Config{Traits: fleet.Traits{Adopts: true}, Workspaces: world}, nil)
	<-h.FakePlace.Called(fake.List, 3)
	ctx, cancel := context.WithTimeout(h.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := h.ListAgents(ctx, fleet.ListAgentsRequest{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.True(t, h.Places(fleet.Principal{})[0].ObservedAt.IsZero())
}

// TestAgentWithUnknownParameters checks that a workspace whose host does not show its parameters has an agent with the
// reason, and that the agent gets its role, spec and owner once the host shows them.
func TestAgentWithUnknownParameters(t *testing.T) {
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
	require.Equal(t, fleet.ReasonAgentNotFound, fleet.ReasonOf(err), "the owner is unknown, so alice must not see the agent")

	h.FakePlace.SetDetails("w-agent-0", "alice", "coder", "Be good.", "")
	h.WaitStored(func() bool {
		v, err = h.ShowAgent(h.Context(), "agent-0")
		return err == nil
	})
	require.Equal(t, []string{"coder", "Be good.", "alice", ""}, []string{v.Role, v.Spec, v.Owner, v.StateReason})
}

// TestNameInTwoPlaces checks that a workspace with the name of an agent in another place is not adopted, that its place
// reports this, and that it is adopted after that agent was deleted.
func TestNameInTwoPlaces(t *testing.T) {
	t.Parallel()
	b := servicetest.SecondPlace(t, fake.Config{Traits: fleet.Traits{Adopts: true}})
	h := servicetest.New(t, fake.Config{}, nil, b)
	h.MustCreate("papi", "fake/Setup")
	b.AddWorkspace(fleet.Workspace{Name: "papi", Owner: "alice", Project: "Web"})
	h.WaitObserved(func() bool { return strings.Contains(h.Problem(1), "1 of its workspaces are not shown") })
	h.MustDelete("papi")
	h.WaitStored(func() bool {
		v, err := h.ShowAgent(h.Context(), "papi")
		return err == nil && v.Place == "second"
	})
	h.WaitObserved(func() bool { return h.Problem(1) == "" })
}

// TestReplicaThatDoesNotPoll checks that a process that does not poll the host itself knows when the other process last
// listed it, and whether the host answers.
func TestReplicaThatDoesNotPoll(t *testing.T) {
	t.Parallel()
	h := servicetest.NewWithPapi(t, fake.Config{}, nil)
	h.Config.CallTimeout = 200 * time.Millisecond
	h.Restart()
	other := h.Replica()
	observedAt := func(h *servicetest.Harness) time.Time { return h.Places(fleet.Principal{})[0].ObservedAt }
	other.WaitObserved(func() bool { return !observedAt(other).IsZero() })
	first := observedAt(other)
	other.WaitObserved(func() bool { return observedAt(other).After(first) })

	// A slow machine may list later than CallTimeout allows, so a single answer proves nothing.
	startTask := func() error {
		_, err := other.StartTask(h.Context(), service.StartTaskRequest{Agent: "papi", Description: "done"})
		return err
	}
	h.FakePlace.Fail(fake.List, 1<<30, nil)
	other.WaitObserved(func() bool { return fleet.ReasonOf(startTask()) == fleet.ReasonBackendUnavailable })
	h.FakePlace.Fail(fake.List, 0, nil)
	other.WaitObserved(func() bool { return startTask() == nil })
}

// TestAdoption checks that a workspace that Fleet did not create becomes an agent that can work and be deleted.
func TestAdoption(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{Traits: fleet.Traits{Name: "fake", Adopts: true}}, nil)
	h.FakePlace.AddWorkspace(fleet.Workspace{Name: "found", Owner: "alice", Project: "Setup", Role: "coder", Spec: "its spec", State: fleet.StateRunning})
	h.WaitStored(func() bool {
		v, err := h.ShowAgent(h.Context(), "found")
		return err == nil && v.Status() == fleet.StatusIdle && v.Spec == "its spec"
	})
	require.Equal(t, fleet.TaskCompleted, h.WaitTask(h.Start("found", "done").ID).Status)
	h.MustDelete("found")
	list, err := h.ListAgents(h.Context(), fleet.ListAgentsRequest{})
	require.NoError(t, err)
	require.Zero(t, list.Total)
}

// anonymousLister is a place whose listings do not say which agents the workspaces were made for, like those of a place that was
// restarted.
type anonymousLister struct{ *fake.Place }

func (a anonymousLister) List(ctx context.Context) ([]fleet.Workspace, error) {
	all, err := a.Place.List(ctx)
	for i := range all {
		all[i].AgentUID = ""
	}
	return all, err
}

// TestDeletedAgentIsNotAdopted deletes an agent, whose workspace was not recorded yet, after a listing has found the
// workspace. The listing must not bring the agent back.
func TestDeletedAgentIsNotAdopted(t *testing.T) {
	t.Parallel()
	b := servicetest.SecondPlace(t, fake.Config{Traits: fleet.Traits{Adopts: true}})
	provisionGate := b.HoldAfter(fake.Provision)
	h := servicetest.New(t, fake.Config{}, func(c *state.Config) { c.CreateWait = 50 * time.Millisecond }, anonymousLister{b})
	v, err := h.CreateIn("papi", "second/Web")
	require.NoError(t, err)
	<-provisionGate.Arrived()
	listGate := b.HoldAfter(fake.List)
	<-listGate.Arrived()
	require.NoError(t, h.RemoveAgent(h.Context(), v.UID))
	h.WaitStored(func() bool { return len(h.Events(fleet.EventAgentDeleted)) == 1 })
	n := b.Calls(fake.List)
	listGate.Open()
	<-b.Called(fake.List, n+2)
	require.Len(t, h.Events(fleet.EventAgentCreated), 1)
	provisionGate.Open()
}

// TestAdoptionOfLateWorkspace adds a workspace of a deleted agent, as if the request to create it had been delayed. The workspace must
// get another agent, so that somebody can see and delete it.
func TestAdoptionOfLateWorkspace(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{Traits: fleet.Traits{Name: "fake", Adopts: true}}, nil)
	first := h.Create("papi")
	h.MustDelete("papi")
	h.FakePlace.AddWorkspace(fleet.Workspace{AgentUID: first.UID, ID: "late", Name: "papi", Owner: "alice", Project: "Setup", Role: "coder"})
	h.WaitStored(func() bool {
		v, err := h.ShowAgent(h.Context(), "papi")
		return err == nil && v.WorkspaceID == "late" && v.UID != first.UID
	})
}
