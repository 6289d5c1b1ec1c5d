package reconcile_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
	"fleet/internal/state"
)

// clock is a clock that a test sets.
type clock struct{ at atomic.Pointer[time.Time] }

// installClock makes the fleet use a new clock, which it returns. It also makes every cron expression mean each minute.
func installClock(c *state.Config) *clock {
	k := &clock{}
	k.at.Store(new(time.Date(2026, 11, 28, 12, 0, 30, 0, time.UTC)))
	c.Now = func() time.Time { return *k.at.Load() }
	c.Cron = func(string, *time.Location) (func(time.Time) time.Time, error) {
		return func(after time.Time) time.Time { return after.Truncate(time.Minute).Add(time.Minute) }, nil
	}
	return k
}

// pass sets the clock forward, and appends an event, so that the fleet notices.
func (c *clock) pass(h *servicetest.Harness, d time.Duration) {
	h.T.Helper()
	c.at.Store(new(c.at.Load().Add(d)))
	require.NoError(h.T, h.Store.Update(h.T.Context(), func(tx fleet.Tx) error {
		return tx.Append(&fleet.Event{Time: *c.at.Load(), Type: fleet.EventFleetChanged, Text: "time passes"})
	}))
}

// scheduleScript creates a schedule. Its tasks run the script on the agent.
func scheduleScript(h *servicetest.Harness, s fleet.Schedule, agent, script string) {
	h.T.Helper()
	scheduleTask(h, s, service.QueueTaskRequest{StartTaskRequest: service.StartTaskRequest{Agent: agent, Description: script}})
}

// scheduleTask creates a schedule of the task.
func scheduleTask(h *servicetest.Harness, s fleet.Schedule, task service.QueueTaskRequest) {
	h.T.Helper()
	text, err := json.Marshal(task)
	require.NoError(h.T, err)
	s.Cron = "* * * * *"
	v, err := h.CreateSchedule(h.Context(), service.CreateScheduleRequest{Schedule: s, Task: service.ScheduledTask{QueueTaskRequest: task, JSON: text}})
	require.NoError(h.T, err)
	require.False(h.T, v.NextTick.IsZero())
}

// TestScheduleWaitsForAPlace checks that a tick stays due while the place of its project does not answer, and is tried again after a
// while.
func TestScheduleWaitsForAPlace(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(context.Context) error{
		"hangs":   servicetest.Hang,
		"refuses": func(context.Context) error { return fleet.Errorf(fleet.ReasonBackendUnavailable, "connection refused") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var down atomic.Bool
			second := servicetest.SecondPlace(t, fake.Config{Before: func(ctx context.Context, c fake.Call) error {
				if c.Method == fake.Roles && down.Load() {
					return fail(ctx)
				}
				return nil
			}})
			var k *clock
			h := servicetest.New(t, fake.Config{}, func(c *state.Config) {
				k = installClock(c)
				c.CallTimeout = time.Second
			}, second)
			scheduleTask(h, fleet.Schedule{Name: "one", OnMissed: fleet.MissedAll}, service.QueueTaskRequest{
				Project: "second/Web", Role: "coder", StartTaskRequest: service.StartTaskRequest{Description: "done"},
			})
			h.Reconciler.Stop()
			down.Store(true)
			k.pass(h, time.Minute)
			for range 2 {
				h.State.Places.Named("second").Catalog.Invalidate()
				rolesCalls := second.Calls(fake.Roles)
				next, err := h.Dispatch(t.Context())
				require.NoError(t, err)
				require.Equal(t, 5*time.Second, next.Sub(*k.at.Load()))
				require.Equal(t, rolesCalls+1, second.Calls(fake.Roles))
				k.pass(h, time.Second)
				_, err = h.Dispatch(t.Context())
				require.NoError(t, err)
				require.Equal(t, rolesCalls+1, second.Calls(fake.Roles), "it is not tried at once, although something has happened")
				v, err := h.ShowSchedule(h.Context(), "one")
				require.NoError(t, err)
				require.EqualValues(t, []int64{0, 0}, []int64{v.Queued, v.Failed}, v.LastError)
				k.pass(h, 4*time.Second)
			}
			down.Store(false)
			_, err := h.Dispatch(t.Context())
			require.NoError(t, err)
			v := k.waitSettled(h, "one")
			require.EqualValues(t, []int64{1, 0}, []int64{v.Queued, v.Failed}, v.LastError)
		})
	}
}

// waitSettled waits until the fleet has handled the ticks of the schedule up to now, and returns the schedule.
func (c *clock) waitSettled(h *servicetest.Harness, name string) (v *service.ScheduleView) {
	h.T.Helper()
	h.WaitStored(func() bool {
		var err error
		v, err = h.ShowSchedule(h.Context(), name)
		require.NoError(h.T, err)
		return v.NextTick.IsZero() || v.NextTick.After(*c.at.Load())
	})
	return v
}

// TestSchedule checks what happens to ticks while a task runs, while no server runs, and while the agent is gone.
func TestSchedule(t *testing.T) {
	t.Parallel()
	var k *clock
	h := servicetest.NewWithPapi(t, fake.Config{}, func(c *state.Config) { k = installClock(c) })
	scheduleScript(h, fleet.Schedule{Name: "nightly", Labels: fleet.Labels{"env": "prod"}}, "papi", "wait gate")
	k.pass(h, time.Minute)
	first := k.waitSettled(h, "nightly")
	require.EqualValues(t, 1, first.Queued)
	task, err := h.ShowTask(h.Context(), first.LastTask, nil)
	require.NoError(t, err)
	require.Equal(t, fleet.Labels{"schedule": "nightly", "env": "prod"}, task.Labels)
	k.pass(h, time.Minute)
	second := k.waitSettled(h, "nightly")
	require.EqualValues(t, 1, second.Skipped)
	require.Equal(t, first.LastTask, second.LastTask)
	h.FakePlace.Release("gate")
	require.Equal(t, fleet.TaskCompleted, h.WaitTask(first.LastTask).Status)

	h.Reconciler.Stop()
	k.pass(h, 10*time.Minute)
	h.Restart()
	third := k.waitSettled(h, "nightly")
	require.EqualValues(t, []int64{2, 1, 9}, []int64{third.Queued, third.Skipped, third.Missed})
	require.Equal(t, fleet.TaskCompleted, h.WaitTask(third.LastTask).Status)

	_, err = h.UpdateSchedule(h.Context(), service.UpdateScheduleRequest{Name: "nightly", Paused: new(true)})
	require.NoError(t, err)
	k.pass(h, 5*time.Minute)
	v, err := h.UpdateSchedule(h.Context(), service.UpdateScheduleRequest{Name: "nightly", Paused: new(false)})
	require.NoError(t, err)
	require.Equal(t, third.Queued, v.Queued)
	require.Equal(t, third.Missed, v.Missed)
	h.MustDelete("papi")
	k.pass(h, time.Minute)
	last := k.waitSettled(h, "nightly")
	require.EqualValues(t, 1, last.Failed)
	require.Contains(t, last.LastError, `"papi"`)
	h.Create("papi")
	k.pass(h, time.Minute)
	require.Empty(t, k.waitSettled(h, "nightly").LastError)
}

// TestScheduleOnce lets two servers over one store handle the ticks of two schedules, while the servers restart and the store
// fails now and then. It checks that each tick queues one task.
func TestScheduleOnce(t *testing.T) {
	t.Parallel()
	var k *clock
	h, flaky := servicetest.NewFlaky(t, func(c *state.Config) {
		k = installClock(c)
		c.LeaseTTL = 300 * time.Millisecond
	})
	h.Create("papi")
	names := []string{"one", "two"}
	for _, name := range names {
		scheduleScript(h, fleet.Schedule{Name: name, OnMissed: fleet.MissedAll, Overlap: fleet.OverlapQueue}, "papi", "done")
	}
	other := h.Replica()
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test
	minutes := 0
	for range 15 {
		n := 1 + r.IntN(3)
		flaky.FailEvery.Store(0)
		k.pass(h, time.Duration(n)*time.Minute)
		minutes += n
		flaky.FailEvery.Store(5)
		switch r.IntN(3) {
		case 0:
			h.Restart()
		case 1:
			other.Restart()
		}
	}
	flaky.FailEvery.Store(0)
	k.pass(h, 0)
	for _, name := range names {
		v := k.waitSettled(h, name)
		require.EqualValues(t, []int64{int64(minutes), 0, 0, 0}, []int64{v.Queued, v.Skipped, v.Missed, v.Failed}, name)
	}
	queued := map[string]bool{} // ticks, and ids of their tasks
	for _, text := range h.Events(fleet.EventScheduleChanged) {
		var name, id, at string
		if n, _ := fmt.Sscanf(text, "the schedule %s has queued the task %s for 2026-11-28 %s", &name, &id, &at); n == 3 {
			require.False(t, queued[name+at], text)
			queued[name+at], queued[id] = true, true
		}
	}
	require.Len(t, queued, 4*minutes) // for each minute a task and a tick of each of the two schedules
}

// serverWithPlace is another server, which has the place.
type serverWithPlace struct{ place *fake.Place }

func (s serverWithPlace) Place(string, string) state.PlaceReader { return s.place }

func (s serverWithPlace) Runner(string, fleet.Agent) fleet.Runner { return nil }

// TestScheduleOfAnotherServer creates schedules through a server. Another server handles their ticks, and also has a project of the
// name. The tasks must be for the project of the first server.
func TestScheduleOfAnotherServer(t *testing.T) {
	t.Parallel()
	var k *clock
	h := servicetest.New(t, fake.Config{Traits: fleet.Traits{Name: fleet.PlaceOn("fake", "a")}}, func(c *state.Config) {
		k = installClock(c)
		c.Replica = "a"
	})
	_, err := h.Store.RecordHeartbeat(t.Context(), fleet.Replica{Name: "a", Machine: "a"}, true)
	require.NoError(t, err)
	forRole := service.QueueTaskRequest{Project: "setup", StartTaskRequest: service.StartTaskRequest{Description: "done"}}
	scheduleTask(h, fleet.Schedule{Name: "role"}, forRole)
	forNewAgent, withPlace := forRole, forRole
	forNewAgent.NewAgent, withPlace.Project = true, "FAKE@a/setup"
	scheduleTask(h, fleet.Schedule{Name: "added"}, forNewAgent)
	scheduleTask(h, fleet.Schedule{Name: "changed"}, withPlace)
	text, err := json.Marshal(forRole)
	require.NoError(t, err)
	_, err = h.UpdateSchedule(h.Context(), service.UpdateScheduleRequest{Name: "changed", Task: &service.ScheduledTask{QueueTaskRequest: forRole, JSON: text}})
	require.NoError(t, err)
	scheduleTask(h, fleet.Schedule{Name: "exact"}, withPlace)
	h.Reconciler.Stop()

	leader := &servicetest.Harness{T: t, FakePlace: servicetest.SecondPlace(t, fake.Config{Traits: fleet.Traits{Name: fleet.PlaceOn("fake", "b")}}), Store: h.Store, Config: h.Config}
	leader.Config.Replica, leader.Config.OtherServers = "b", serverWithPlace{h.FakePlace}
	leader.Restart()
	t.Cleanup(leader.Reconciler.Stop)
	k.pass(leader, time.Minute)
	for _, name := range []string{"role", "added", "changed", "exact"} {
		v := k.waitSettled(leader, name)
		require.EqualValues(t, 1, v.Queued, v.LastError)
		l, err := leader.ListQueue(leader.Context(), service.ListQueueRequest{Selector: "schedule=" + name})
		require.NoError(t, err)
		require.Len(t, l.Items, 1)
		place := l.Items[0].Entry.Target.Place
		if uid := l.Items[0].AgentUID; uid != "" {
			views, _, err := leader.AgentsByUID(leader.Context(), []string{uid})
			require.NoError(t, err)
			place = views[0].Place
		}
		require.Equal(t, fleet.PlaceOn("fake", "a"), place, name)
	}
}
