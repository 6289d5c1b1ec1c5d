package service_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
	"fleet/internal/state"
	"fleet/internal/waittest"
)

// TestExpiredTasksDoNotChange changes a task that has expired but is not stopped yet. The error must say that the task has expired, and
// must not be about a field that the caller has not given.
func TestExpiredTasksDoNotChange(t *testing.T) {
	t.Parallel()
	var expired atomic.Bool
	begun := time.Now()
	h := servicetest.New(t, fake.Config{}, func(c *state.Config) {
		c.Now = func() time.Time {
			if expired.Load() {
				return begun.Add(2 * time.Hour)
			}
			return begun
		}
	})
	alice := h.Context()
	h.Create("papi")
	h.Reconciler.Stop() // nothing stops the task when it expires
	r := service.QueueTaskRequest{Entry: fleet.QueueEntry{Expires: begun.Add(time.Hour)}}
	r.Agent, r.Description = "papi", "done"
	task, err := h.QueueTask(alice, r)
	require.NoError(t, err)

	change := service.UpdateQueuedTaskRequest{TaskID: task.ID, NotBefore: new(begun.Add(90 * time.Minute))}
	_, err = h.UpdateQueuedTask(alice, change)
	require.ErrorContains(t, err, "not_before is after the time at which the task expires")
	expired.Store(true)
	change = service.UpdateQueuedTaskRequest{TaskID: task.ID, Priority: new(5)}
	_, err = h.UpdateQueuedTask(alice, change)
	require.Equal(t, fleet.ReasonTaskNotPending, fleet.ReasonOf(err))
	require.ErrorContains(t, err, "has expired")
	change.Expires = new(begun.Add(3 * time.Hour))
	_, err = h.UpdateQueuedTask(alice, change)
	require.NoError(t, err, "more time can be given")
}

// TestDependencyOnTheDelegatingTask delegates tasks that depend on the delegating task, directly or not. They are refused, because both
// tasks would wait forever, unless the delegating task does not wait for the new one.
func TestDependencyOnTheDelegatingTask(t *testing.T) {
	t.Parallel()
	place := fake.Config{Traits: fleet.Traits{ReachesFleet: true}, Grants: map[string]*fleet.Grant{"coder": {MaxTotal: 100, PerMinute: 100}}}
	h := servicetest.New(t, place, func(c *state.Config) { c.MCPURL = func() string { return "http://127.0.0.1:1/mcp" } })
	boss := h.Create("boss")
	parent := h.Start("boss", "wait gate\ndone")
	h.WaitStored(func() bool { // it may delegate when it is dispatched
		shown, err := h.ShowTask(h.Context(), parent.ID, nil)
		require.NoError(t, err)
		parent = shown.Task
		return parent.Delegation.Grant != nil
	})
	ctx := fleet.WithPrincipal(t.Context(), fleet.Principal{Name: "boss", Kind: fleet.KindAgent, AgentUID: boss.UID, TaskID: parent.ID, Grant: parent.Delegation.Grant})
	delegate := func(dependsOn, wake string, end fleet.ParentEndAction) (*fleet.Task, error) {
		r := service.QueueTaskRequest{Project: "Setup", Role: "coder", NewAgent: true, Wake: wake, OnParentEnd: end}
		r.Description, r.Entry.Dependencies = "done", []fleet.Dependency{{TaskID: dependsOn}}
		return h.QueueTask(ctx, r)
	}
	requireRefused := func(err error) {
		t.Helper()
		require.Equal(t, fleet.ReasonInvalidArgument, fleet.ReasonOf(err))
		require.ErrorContains(t, err, "depends_on would make tasks wait for each other")
	}
	_, err := delegate(parent.ID, "", "")
	requireRefused(err)
	_, err = delegate(parent.ID, "none", "")
	requireRefused(err)
	_, err = delegate(parent.ID, "all", fleet.ParentEndDetach)
	requireRefused(err)
	later, err := delegate(parent.ID, "none", fleet.ParentEndDetach)
	require.NoError(t, err)
	_, err = delegate(later.ID, "", "")
	requireRefused(err)
	h.FakePlace.Release("gate")
	require.Equal(t, fleet.TaskCompleted, h.WaitTask(later.ID).Status)
}

// TestDispatchDoesNotWaitForAPlace dispatches while the place of eight pools of the configuration does not answer. It must be asked only
// once, and a task at another place must start.
func TestDispatchDoesNotWaitForAPlace(t *testing.T) {
	t.Parallel()
	t.Run("calls of places have a limit", func(t *testing.T) { dispatchBesideAHangingPlace(t, 2*time.Second, 30*time.Second) })
	t.Run("the dispatcher has a limit", func(t *testing.T) { dispatchBesideAHangingPlace(t, 100*waittest.Limit, 9*time.Second) })
}

func dispatchBesideAHangingPlace(t *testing.T, callTimeout, firstLimit time.Duration) {
	t.Parallel()
	waittest.WithGrowingLimit(t, firstLimit, func(limit time.Duration) bool { return tryDispatchBesideAHangingPlace(t, callTimeout, limit) })
}

// tryDispatchBesideAHangingPlace does the work of dispatchBesideAHangingPlace while leases last for leaseTTL. It returns false if that was
// too short.
func tryDispatchBesideAHangingPlace(t *testing.T, callTimeout, leaseTTL time.Duration) bool {
	t.Helper()
	second := servicetest.SecondPlace(t, fake.Config{Before: func(ctx context.Context, c fake.Call) error {
		if c.Method == fake.Roles {
			<-ctx.Done()
		}
		return ctx.Err()
	}})
	h := servicetest.New(t, fake.Config{}, func(c *state.Config) { c.CallTimeout, c.LeaseTTL = callTimeout, leaseTTL }, second)
	h.MustCreate("papi", "fake/Setup")
	h.Reconciler.Stop()
	var pools []fleet.PoolSetting
	for i := range 8 {
		pools = append(pools, fleet.PoolSetting{Name: fmt.Sprint("web-", i), Owner: "alice", Project: []string{"second/Web", "Second/Setup"}[i%2], Spec: "a spec"})
	}
	h.SetPools(pools)
	r := service.QueueTaskRequest{}
	r.Agent, r.Description = "papi", "done"
	task, err := h.QueueTask(h.Context(), r)
	require.NoError(t, err)
	callsBefore := second.Calls(fake.Roles)
	begun := time.Now()
	_, err = h.Dispatch(t.Context())
	if time.Since(begun) >= leaseTTL {
		return false
	}
	require.NoError(t, err)
	require.Equal(t, callsBefore+1, second.Calls(fake.Roles))
	shown, err := h.ShowTask(h.Context(), task.ID, nil)
	require.NoError(t, err)
	require.Equal(t, fleet.TaskRunning, shown.Status)
	return true
}

// hookedStore is a store that calls a function before an update.
type hookedStore struct {
	fleet.Store
	before atomic.Pointer[func()] // called before the next Update; nil: none
}

func (s *hookedStore) Update(ctx context.Context, fn func(fleet.Tx) error) error {
	if before := s.before.Swap(nil); before != nil {
		(*before)()
	}
	return s.Store.Update(ctx, fn)
}

// TestChangesDuringDispatch changes a pending task after Dispatch has decided to start or end it, and before it has done so. The change
// must count.
func TestChangesDuringDispatch(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	for name, tt := range map[string]struct {
		entry   fleet.QueueEntry
		elapsed time.Duration // until Dispatch decides
		change  service.UpdateQueuedTaskRequest
		want    fleet.TaskStatus // after the next Dispatch
	}{
		"not before": {change: service.UpdateQueuedTaskRequest{NotBefore: new(begun.Add(10 * time.Hour))}, want: fleet.TaskPending},
		"exclusive":  {change: service.UpdateQueuedTaskRequest{Exclusive: new("deploy")}, want: fleet.TaskRunning},
		"expires": {
			entry: fleet.QueueEntry{Expires: begun.Add(time.Hour)}, elapsed: 2 * time.Hour,
			change: service.UpdateQueuedTaskRequest{Expires: new(begun.Add(3 * time.Hour))}, want: fleet.TaskRunning,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var elapsed atomic.Int64
			var store *hookedStore
			h := servicetest.NewOver(t, fake.Config{}, func(c *state.Config) {
				c.Now = func() time.Time { return begun.Add(time.Duration(elapsed.Load())) }
			}, func(s fleet.Store) fleet.Store {
				store = &hookedStore{Store: s}
				return store
			})
			h.Create("papi")
			h.Reconciler.Stop()
			r := service.QueueTaskRequest{Entry: tt.entry}
			r.Agent, r.Description = "papi", "done"
			task, err := h.QueueTask(h.Context(), r)
			require.NoError(t, err)
			elapsed.Store(int64(tt.elapsed))
			tt.change.TaskID = task.ID
			var changeErr error
			store.before.Store(new(func() { _, changeErr = h.UpdateQueuedTask(h.Context(), tt.change) }))
			for _, want := range []fleet.TaskStatus{fleet.TaskPending, tt.want} {
				_, err = h.Dispatch(t.Context())
				require.NoError(t, err)
				require.Nil(t, store.before.Load())
				require.NoError(t, changeErr)
				shown, err := h.ShowTask(h.Context(), task.ID, nil)
				require.NoError(t, err)
				require.Equal(t, want, shown.Status)
			}
		})
	}
}

// TestDispatchOnASlowStore dispatches six tasks while each update takes half as long as a lease lasts: all of them must start. If one
// update takes longer than a lease lasts, Dispatch must fail.
func TestDispatchOnASlowStore(t *testing.T) {
	t.Parallel()
	waittest.WithGrowingLimit(t, time.Second/2, func(limit time.Duration) bool {
		var store *hookedStore
		h := servicetest.NewOver(t, fake.Config{}, func(c *state.Config) { c.LeaseTTL = limit }, func(s fleet.Store) fleet.Store {
			store = &hookedStore{Store: s}
			return store
		})
		agents := []string{"one", "two", "three", "four", "five", "six"}
		for _, agent := range agents {
			h.Create(agent)
		}
		h.Reconciler.Stop()
		started := map[string]string{}
		for _, agent := range agents {
			started[queueIn(h, agent, "", fleet.TaskOptions{})] = agent
		}
		store.before.Store(new(func() { time.Sleep(2 * limit) }))
		_, err := h.Dispatch(t.Context())
		require.Equal(t, fleet.ReasonBackendUnavailable, fleet.ReasonOf(err))
		var slowly func()
		slowly = func() {
			time.Sleep(limit / 2)
			store.before.Store(&slowly)
		}
		slowly()
		if _, err = h.Dispatch(t.Context()); fleet.ReasonOf(err) == fleet.ReasonBackendUnavailable { // the machine is slow
			return false
		}
		store.before.Store(nil)
		requireDispatched(h, started)
		return true
	})
}

// queueIn queues a task for the agent, or if that is empty for an agent of the project, and returns its id.
func queueIn(h *servicetest.Harness, agent, project string, o fleet.TaskOptions) string {
	h.T.Helper()
	r := service.QueueTaskRequest{Project: project}
	r.Agent, r.Description, r.Options = agent, "done", o
	task, err := h.QueueTask(h.Context(), r)
	require.NoError(h.T, err)
	return task.ID
}

// requireDispatched dispatches, and then requires the task of each id to run on the agent, or to be pending if the agent is "".
func requireDispatched(h *servicetest.Harness, agents map[string]string) {
	h.T.Helper()
	_, err := h.Dispatch(h.T.Context())
	require.NoError(h.T, err)
	for id, agent := range agents {
		shown, err := h.ShowTask(h.Context(), id, nil)
		require.NoError(h.T, err)
		if agent == "" {
			require.Equal(h.T, fleet.TaskPending, shown.Status)
			continue
		}
		require.Equal(h.T, fleet.TaskRunning, shown.Status)
		require.Equal(h.T, agent, shown.AgentName)
	}
}

// requireWait requires the task to wait for one reason.
func requireWait(h *servicetest.Harness, id string, reason fleet.WaitReason, subject string) {
	h.T.Helper()
	shown, err := h.ShowTask(h.Context(), id, nil)
	require.NoError(h.T, err)
	require.NotNil(h.T, shown.QueueItem)
	require.Len(h.T, shown.QueueItem.Waits, 1)
	require.Equal(h.T, reason, shown.QueueItem.Waits[0].Reason, shown.QueueItem.Waits[0].Text)
	require.Equal(h.T, subject, shown.QueueItem.Waits[0].Subject)
}

// TestRefusedStartsAreOvertaken dispatches a task whose start is refused because of a limit that the decision does not consider. It must
// not use up what its owner may run.
func TestRefusedStartsAreOvertaken(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	h.MustCreate("papi", "DataOne")
	h.MustCreate("sony", "Setup")
	h.Reconciler.Stop()
	first, second := queueIn(h, "papi", "", fleet.TaskOptions{}), queueIn(h, "sony", "", fleet.TaskOptions{})
	h.SetLimits(fleet.Limits{RunningTasks: 1, Projects: map[string]fleet.ProjectLimits{"DataOne": {StoredBytes: 1}}})
	requireDispatched(h, map[string]string{first: "", second: "sony"})
}

// TestFullProjectsAreOvertaken dispatches a task of a project that has as many running tasks as it may. It must wait for that, and must not
// use up what its owner may run.
func TestFullProjectsAreOvertaken(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, func(c *state.Config) {
		c.Limits = fleet.Limits{RunningTasks: 2, Projects: map[string]fleet.ProjectLimits{"DataOne": {RunningTasks: 1}}}
	})
	for name, project := range map[string]string{"papi": "DataOne", "mami": "DataOne", "sony": "Setup"} {
		h.MustCreate(name, project)
	}
	h.Reconciler.Stop()
	h.Start("papi", "done")
	first, second, third := queueIn(h, "mami", "", fleet.TaskOptions{}), queueIn(h, "", "DataOne", fleet.TaskOptions{}), queueIn(h, "sony", "", fleet.TaskOptions{})
	requireWait(h, first, fleet.WaitPrincipalLimit, "DataOne")
	requireWait(h, second, fleet.WaitPrincipalLimit, "DataOne")
	requireDispatched(h, map[string]string{first: "", second: "", third: "sony"})
}

// TestBudgetOfOneAgent dispatches tasks for two agents with the same role. A budget that is only for the agent that was used last refuses
// them. The other agent must get the first task, and the second one must wait for the budget.
func TestBudgetOfOneAgent(t *testing.T) {
	t.Parallel()
	for _, b := range []fleet.Budget{{Scope: fleet.BudgetAgent, Value: "papi"}, {Scope: fleet.BudgetLabel, Value: "team=web"}} {
		t.Run(string(b.Scope), func(t *testing.T) {
			t.Parallel()
			h := servicetest.New(t, fake.Config{}, nil)
			b.Name, b.Limit = "small", 1_000_000
			_, err := h.SetBudget(servicetest.AsAdmin(t.Context()), b, "")
			require.NoError(t, err)
			h.Create("sony")
			h.Create("papi")
			_, _, err = h.SetLabels(h.Context(), service.SetLabelsRequest{Agent: "papi", Labels: fleet.Labels{"team": "web"}})
			require.NoError(t, err)
			h.Reconciler.Stop()
			o := fleet.TaskOptions{MaxCostUSD: new(2.0)}
			first, second := queueIn(h, "", "Setup", o), queueIn(h, "", "Setup", o)
			requireDispatched(h, map[string]string{first: "sony", second: ""})
			requireWait(h, second, fleet.WaitBudget, "small")
		})
	}
}

// TestRetireSparesQueuedTask queues a task for an agent after the dispatcher has decided to delete the agent because it is idle, and before
// it does that. The agent must stay.
func TestRetireSparesQueuedTask(t *testing.T) {
	t.Parallel()
	var clockAhead atomic.Int64
	store := &hookedStore{}
	h := servicetest.NewOver(t, fake.Config{}, func(c *state.Config) {
		c.Now = func() time.Time { return time.Now().Add(time.Duration(clockAhead.Load())) }
	}, func(s fleet.Store) fleet.Store { store.Store = s; return store })
	r := service.QueueTaskRequest{StartTaskRequest: service.StartTaskRequest{Description: "done"}, Project: "Setup", NewAgent: true, MaxIdle: time.Hour}
	first, err := h.QueueTask(h.Context(), r)
	require.NoError(t, err)
	first = h.WaitTask(first.ID)
	h.Reconciler.Stop()
	clockAhead.Store(int64(2 * time.Hour))
	var queued *fleet.Task
	store.before.Store(new(func() {
		r := service.QueueTaskRequest{StartTaskRequest: service.StartTaskRequest{Agent: first.AgentName, Description: "done"}}
		queued, err = h.QueueTask(h.Context(), r)
	}))
	_, dispatchErr := h.Dispatch(t.Context())
	require.NoError(t, dispatchErr)
	require.NoError(t, err)
	require.NotNil(t, queued, "the dispatcher must decide to delete the agent")
	views, _, err := h.AgentsByUID(h.Context(), []string{first.AgentUID})
	require.NoError(t, err)
	require.Equal(t, fleet.DesiredRunning, views[0].Desired)
	_, err = h.Dispatch(t.Context())
	require.NoError(t, err)
	shown, err := h.ShowTask(h.Context(), queued.ID, nil)
	require.NoError(t, err)
	require.Equal(t, fleet.TaskRunning, shown.Status)
}
