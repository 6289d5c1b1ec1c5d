package service_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/waittest"
)

// inCoder returns workspaces as a host has them that Fleet does not know yet.
func inCoder(n int) (all []fleet.Workspace) {
	for i := range n {
		name := fmt.Sprintf("agent-%d", i)
		all = append(all, fleet.Workspace{ID: "w-" + name, Name: name, Owner: "alice", Project: "Setup", Role: "coder", State: fleet.StateRunning})
	}
	return all
}

// TestFirstListing asks for agents while the host is listing them for the first time: the answer has all of them.
func TestFirstListing(t *testing.T) {
	t.Parallel()
	listing := make(chan struct{})
	var calls atomic.Int32
	h := newHarness(t, fake.Config{Traits: fleet.Traits{Adopts: true}, Workspaces: inCoder(50), Before: func(ctx context.Context, c fake.Call) error {
		if c.Method == fake.List && calls.Add(1) == 1 {
			<-listing
		}
		return nil
	}}, nil)
	require.False(t, h.Health(t.Context()).Ready)
	time.AfterFunc(50*time.Millisecond, func() { close(listing) })
	v, err := h.ShowAgent(h.ctx(), "agent-49")
	require.NoError(t, err)
	require.Equal(t, "w-agent-49", v.WorkspaceID)
	listed, err := h.ListAgents(h.ctx(), fleet.ListAgentsRequest{})
	require.NoError(t, err)
	require.Len(t, listed.Agents, 50)
	require.Equal(t, 50, listed.Total)
	require.True(t, h.Health(t.Context()).Ready)
}

// TestListedBefore starts a process while the host is down: what an earlier process has listed is shown, with its age.
func TestListedBefore(t *testing.T) {
	t.Parallel()
	h := newHarness(t, fake.Config{Traits: fleet.Traits{Adopts: true}, Workspaces: inCoder(1)}, nil)
	_, err := h.ListAgents(h.ctx(), fleet.ListAgentsRequest{}) // which waits for the first listing
	require.NoError(t, err)
	h.world.Fail(fake.List, 1<<30, fleet.Errorf(fleet.ReasonPermissionDenied, "the token is not accepted"))
	h.restart()
	agents, err := h.ListAgents(h.ctx(), fleet.ListAgentsRequest{})
	require.NoError(t, err)
	require.Len(t, agents.Agents, 1)
	require.False(t, placeState(h.Service).ObservedAt.IsZero())
	waittest.Until(t, notAnnounced, func() bool { return placeState(h.Service).Stale == "the token is not accepted" })
	health := h.Health(t.Context())
	require.True(t, health.Ready)
	require.Len(t, health.Degraded, 1)
	require.Equal(t, "fake", health.Degraded[0].Part)
	since := health.Degraded[0].Since
	seen := h.world.Calls(fake.List)
	<-h.world.Called(fake.List, seen+3)
	require.Equal(t, since, h.Health(t.Context()).Degraded[0].Since, "since the first failure")
	_, err = h.StartTask(h.ctx(), service.StartTaskRequest{Agent: "agent-0", Description: "done"})
	require.Equal(t, fleet.ReasonBackendUnavailable, reason(err))

	h.world.Fail(fake.List, 0, nil)
	waittest.Until(t, notAnnounced, func() bool { return placeState(h.Service).Stale == "" && len(h.Health(t.Context()).Degraded) == 0 })
}

// TestStoreCannotBeRead has a store that fails: the server is not ready, and says so.
func TestStoreCannotBeRead(t *testing.T) {
	t.Parallel()
	h, flaky := newFlaky(t, nil)
	waittest.Until(t, notAnnounced, func() bool { return h.Health(t.Context()).Ready })
	flaky.fails.Store(1)
	health := h.Health(t.Context())
	require.False(t, health.Ready)
	require.Equal(t, "store", health.Degraded[0].Part)
	flaky.fails.Store(0)
	require.True(t, h.Health(t.Context()).Ready)
}

// TestListingThatIsNotComplete has a workspace of which the host does not know enough yet: the fleet is not known before.
func TestListingThatIsNotComplete(t *testing.T) {
	t.Parallel()
	world := inCoder(2)
	world[1].Name = ""
	h := newHarness(t, fake.Config{Traits: fleet.Traits{Adopts: true}, Workspaces: world}, nil)
	<-h.world.Called(fake.List, 3)
	ctx, cancel := context.WithTimeout(h.ctx(), 50*time.Millisecond)
	defer cancel()
	_, err := h.ListAgents(ctx, fleet.ListAgentsRequest{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.True(t, placeState(h.Service).ObservedAt.IsZero())
}

// TestAgentOfWhichLittleIsKnown has a workspace whose host does not show its parameters: the agent is there, with the
// reason, and has its role, specification and owner once they are known.
func TestAgentOfWhichLittleIsKnown(t *testing.T) {
	t.Parallel()
	world := inCoder(1)
	world[0].Role, world[0].Owner, world[0].Reason = "", "fleet", "its role or specification is not known: 403"
	h := newHarness(t, fake.Config{Traits: fleet.Traits{Adopts: true}, Workspaces: world}, nil)
	v, err := h.ShowAgent(asAdmin(t.Context()), "agent-0")
	require.NoError(t, err)
	require.Equal(t, "", v.Role)
	require.Contains(t, v.StateReason, "403")
	require.Equal(t, fleet.StatusIdle, v.Status())
	_, err = h.ShowAgent(h.ctx(), "agent-0")
	require.Equal(t, fleet.ReasonAgentNotFound, reason(err), "nobody knows that it is alice's")

	h.world.Describe("w-agent-0", "alice", "coder", "Be good.", "")
	h.stored(func() bool {
		v, err = h.ShowAgent(h.ctx(), "agent-0")
		return err == nil
	})
	require.Equal(t, []string{"coder", "Be good.", "alice", ""}, []string{v.Role, v.Spec, v.Owner, v.StateReason})
}

// TestFullDisk has the disk of the store full while tasks run: a task that fails is reported as that, a task can be
// stopped and an agent deleted, nothing new is taken, and the output that is lost is said to be.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	var full atomic.Bool
	h := newHarnessOver(t, fake.Config{}, nil, func(s fleet.Store) fleet.Store { return fullStore{s, &full} })
	h.create("papi")
	h.create("sony")
	failing := h.start("papi", "wait gate\necho lost\npayload much\nfail exit code 1")
	stopped := h.start("sony", "wait ever")
	<-h.world.Reached("gate")
	full.Store(true)
	health := h.Health(t.Context())
	require.True(t, slices.ContainsFunc(health.Degraded, func(d fleet.Degraded) bool { return d.Part == "disk" }), "%v", health.Degraded)
	require.True(t, health.Ready)
	h.world.Release("gate")
	end := h.end(failing.ID)
	require.Equal(t, fleet.TaskFailed, end.Status)
	require.Equal(t, "exit code 1", end.Reason)
	require.Empty(t, h.output(failing.ID))
	require.Contains(t, h.events(fleet.EventTaskStep), "output is not kept: the disk of the server's data is full")
	task, _, _, err := h.StopTask(h.ctx(), "sony", "")
	require.NoError(t, err)
	require.Equal(t, stopped.ID, task.ID)
	require.Equal(t, fleet.TaskStopped, task.Status)
	_, err = h.StartTask(h.ctx(), service.StartTaskRequest{Agent: "papi", Description: "done"})
	require.ErrorIs(t, err, fleet.ErrStoreFull)
	_, _, err = h.DeleteAgent(h.ctx(), "papi", "")
	require.NoError(t, err)
	full.Store(false)
	require.Equal(t, fleet.TaskCompleted, h.end(h.start("sony", "done").ID).Status)
}

// fullStore is a store that has no room for anything new while full is set.
type fullStore struct {
	fleet.Store
	full *atomic.Bool
}

func (s fullStore) Full() (time.Time, bool) { return time.Now(), s.full.Load() }

func (s fullStore) Update(ctx context.Context, fn func(fleet.Tx) error) error {
	return s.Store.Update(ctx, func(tx fleet.Tx) error {
		if s.full.Load() {
			tx = fullTx{tx}
		}
		return fn(tx)
	})
}

type fullTx struct{ fleet.Tx }

func (fullTx) InsertAgent(*fleet.Agent) error  { return fleet.ErrStoreFull }
func (fullTx) InsertTask(*fleet.Task) error    { return fleet.ErrStoreFull }
func (fullTx) PutPayload(string, []byte) error { return fleet.ErrStoreFull }
func (t fullTx) Append(e *fleet.Event) error {
	if e.Type == fleet.EventTaskOutput {
		return fleet.ErrStoreFull
	}
	return t.Tx.Append(e)
}
