package service_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
	"fleet/internal/waittest"
)

// TestWatch checks that a slow watcher does not delay others, that the stream of a task has increasing Seqs and ends with the task, and
// that invalid cursors are refused.
func TestWatch(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	h.Create("papi")
	slow := make(chan struct{})
	defer close(slow)
	ctx, cancel := context.WithCancel(h.Context())
	defer cancel()
	go func() { // a slow watcher, which must not delay the others
		_ = h.Watch(ctx, service.WatchRequest{Follow: true, Wait: -1}, func([]fleet.Event, string) error { <-slow; return nil })
	}()
	task := h.Start("papi", "repeat 500 line\ndone")
	var seqs []int64
	err := h.Watch(h.Context(), service.WatchRequest{TaskID: task.ID, Follow: true, Wait: -1}, func(events []fleet.Event, _ string) error {
		for _, e := range events {
			seqs = append(seqs, e.Seq)
		}
		return nil
	})
	require.NoError(t, err, "the stream of a task ends with the task")
	require.IsIncreasing(t, seqs)
	require.Equal(t, fleet.TaskCompleted, h.WaitTask(task.ID).Status)
	err = h.Watch(h.Context(), service.WatchRequest{TaskID: task.ID, Cursor: fmt.Sprint(seqs[len(seqs)-1]), Follow: true, Wait: -1}, func([]fleet.Event, string) error { return nil })
	require.NoError(t, err, "a stream after the last event of an ended task must end at once")
	for _, cursor := range []string{"x", "-1", fmt.Sprint(1 << 60)} {
		err = h.Watch(h.Context(), service.WatchRequest{Cursor: cursor}, func([]fleet.Event, string) error { return nil })
		require.Equal(t, fleet.ReasonInvalidArgument, fleet.ReasonOf(err), cursor)
	}
}

// TestWatchEndsWithItsTask checks that the stream of a task ends even if the log has another event of the task after its end,
// and that the stream contains this event.
func TestWatchEndsWithItsTask(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	h.Create("papi")
	task := h.Start("papi", "wait gate\ndone")
	<-h.FakePlace.Reached("gate")
	begun, logged := make(chan struct{}), make(chan struct{})
	watched := make(chan error, 1)
	var types []fleet.EventType
	go func() {
		watched <- h.Watch(h.Context(), service.WatchRequest{TaskID: task.ID, Follow: true, Wait: -1}, func(events []fleet.Event, _ string) error {
			if types == nil {
				close(begun)
				<-logged
			}
			for _, e := range events {
				types = append(types, e.Type)
			}
			return nil
		})
	}()
	<-begun
	h.FakePlace.Release("gate")
	h.WaitTask(task.ID)
	require.NoError(t, h.Store.Update(t.Context(), func(tx fleet.Tx) error {
		return tx.Append(&fleet.Event{Type: fleet.EventTaskStep, AgentUID: task.AgentUID, AgentName: "papi", Owner: "alice", TaskID: task.ID, Text: "late"})
	}))
	close(logged)
	require.NoError(t, <-watched)
	require.Equal(t, fleet.EventTaskStep, types[len(types)-1])
}

// TestWatchFromNowOfATaskThatEnds checks that a stream with the cursor "now" ends if its task ends while the stream begins.
func TestWatchFromNowOfATaskThatEnds(t *testing.T) {
	t.Parallel()
	h, flaky := servicetest.NewFlaky(t, nil)
	h.Create("papi")
	task := h.Start("papi", "wait gate\ndone")
	<-h.FakePlace.Reached("gate")
	_, err := h.ListAgents(h.Context(), fleet.ListAgentsRequest{}) // so that the stream finds nothing new, and its first view is its own
	require.NoError(t, err)
	endTask := servicetest.OnCall(1, func() {
		h.FakePlace.Release("gate")
		h.WaitStored(func() (ended bool) {
			err := h.Store.View(t.Context(), func(tx fleet.ReadTx) error {
				stored, err := tx.Task(task.ID)
				ended = !stored.Active()
				return err
			})
			return err == nil && ended
		})
	})
	flaky.OnView(func(ctx context.Context) {
		if ctx.Value(task) != nil { // the View is one of Watch
			endTask()
		}
	})
	ctx, cancel := context.WithTimeout(context.WithValue(h.Context(), task, true), waittest.Limit)
	defer cancel()
	err = h.Watch(ctx, service.WatchRequest{TaskID: task.ID, Cursor: "now", Follow: true, Wait: -1}, func([]fleet.Event, string) error { return nil })
	require.NoError(t, err)
}

// TestWatchOneOwnersAgent checks that Watch accepts NAME@OWNER, and that a plain name means all visible agents of that
// name.
func TestWatchOneOwnersAgent(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	h.Create("papi")
	_, _, err := h.CreateAgent(servicetest.As(t.Context(), "bob"), service.CreateAgentRequest{Name: "papi", Project: "Setup", Spec: "x"})
	require.NoError(t, err)
	owners := map[string]bool{}
	watch := func(ctx context.Context, agent string) error {
		clear(owners)
		return h.Watch(ctx, service.WatchRequest{AgentName: agent}, func(events []fleet.Event, _ string) error {
			for _, e := range events {
				owners[e.Owner] = true
			}
			return nil
		})
	}
	require.NoError(t, watch(servicetest.AsAdmin(t.Context()), "PAPI@bob"))
	require.Equal(t, map[string]bool{"bob": true}, owners)
	require.NoError(t, watch(servicetest.AsAdmin(t.Context()), "papi"))
	require.Len(t, owners, 2)
	require.NoError(t, watch(h.Context(), "papi@alice"))
	require.Equal(t, map[string]bool{"alice": true}, owners)
	require.Equal(t, fleet.ReasonAgentNotFound, fleet.ReasonOf(watch(h.Context(), "papi@bob")))
	require.Empty(t, owners)
}

// TestWatchStopsInTime checks that Watch returns when WatchRequest.Wait is over, even if the log has more events.
func TestWatchStopsInTime(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	h.Create("papi")
	h.WaitTask(h.Start("papi", "repeat 600 line\ndone").ID)
	got := 0
	err := h.Watch(h.Context(), service.WatchRequest{Follow: true, Wait: 0}, func(events []fleet.Event, _ string) error {
		got += len(events)
		return nil
	})
	require.NoError(t, err)
	require.NotZero(t, got)
	require.Less(t, got, 600)
}
