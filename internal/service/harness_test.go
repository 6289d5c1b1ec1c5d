package service_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/reconcile"
	"fleet/internal/service"
	"fleet/internal/state"
	"fleet/internal/store/sqlite"
	"fleet/internal/waittest"
)

// harness is a fleet over a real store and a fake world.
type harness struct {
	*service.Service
	t     testing.TB
	world *fake.Place
	more  []fleet.Place // of the fleet, besides the world
	store fleet.Store
	path  string // of the store
	cfg   state.Config
	rec   *reconcile.Reconciler
}

// newHarness starts a fleet; with is what differs from the defaults of tests.
func newHarness(t testing.TB, world fake.Config, with func(*state.Config)) *harness {
	t.Helper()
	return newHarnessOver(t, world, with, func(s fleet.Store) fleet.Store { return s })
}

// newHarnessOver starts a fleet over what wrap makes of the store.
func newHarnessOver(t testing.TB, world fake.Config, with func(*state.Config), wrap func(fleet.Store) fleet.Store) *harness {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fleet.db")
	store, err := sqlite.Open(t.Context(), path, sqlite.Config{})
	require.NoError(t, err)
	h := &harness{t: t, world: fake.New(world), store: wrap(store), path: path, cfg: state.Config{
		CreateWait: waittest.Limit, MessageWait: waittest.Limit, StopGrace: 50 * time.Millisecond, PollInterval: 20 * time.Millisecond, LeaseTTL: time.Second,
		Logger: slog.New(slog.NewTextHandler(logWriter{t}, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}}
	if with != nil {
		with(&h.cfg)
	}
	t.Cleanup(func() {
		if h.rec != nil {
			h.rec.Stop()
		}
		h.world.Destroy()
		require.NoError(t, store.Close())
		require.Empty(t, h.world.Overlaps())
	})
	h.restart()
	return h
}

// places returns the places of the fleet.
func (h *harness) places() []fleet.Place { return append([]fleet.Place{h.world}, h.more...) }

// placeState returns the state of the first place, as the service reports it.
func placeState(s *service.Service) fleet.PlaceState { return s.Places(fleet.Principal{})[0] }

// restart makes a new service and reconciler over the same store and world, as a new process would.
func (h *harness) restart() {
	if h.rec != nil {
		h.rec.Stop()
	}
	st := state.New(h.store, h.places(), h.cfg)
	h.Service, h.rec = service.New(st), reconcile.New(st)
	h.rec.Start()
}

// rec2 starts a second service and reconciler over the same store and world, as another process would.
func (h *harness) rec2() *service.Service {
	cfg := h.cfg
	cfg.Fault = nil
	st := state.New(h.store, h.places(), cfg)
	s, r := service.New(st), reconcile.New(st)
	r.Start()
	h.t.Cleanup(r.Stop)
	return s
}

// logWriter writes the log into the test's, until the test has ended.
type logWriter struct{ t testing.TB }

func (w logWriter) Write(b []byte) (int, error) {
	if w.t.Context().Err() == nil {
		w.t.Logf("%s", b)
	}
	return len(b), nil
}

func as(ctx context.Context, name string) context.Context {
	return fleet.WithPrincipal(ctx, fleet.Principal{Name: name, Kind: fleet.Human})
}

func asAdmin(ctx context.Context) context.Context {
	return fleet.WithPrincipal(ctx, fleet.Principal{Name: "root", Kind: fleet.Controller, Scope: fleet.ScopeAdmin})
}

func (h *harness) ctx() context.Context { return as(h.t.Context(), "alice") }

func (h *harness) create(name string) *fleet.AgentView {
	h.t.Helper()
	v, _, err := h.CreateAgent(h.ctx(), service.CreateAgentRequest{Name: name, Project: "Setup", Spec: "a spec"})
	require.NoError(h.t, err)
	require.Equal(h.t, fleet.StatusIdle, v.Status())
	return v
}

func (h *harness) start(agent, prompt string) *fleet.Task {
	h.t.Helper()
	task, err := h.StartTask(h.ctx(), service.StartTaskRequest{Agent: agent, Description: prompt})
	require.NoError(h.t, err)
	require.Equal(h.t, fleet.TaskRunning, task.Status)
	return task
}

// end waits for the task to end and returns it.
func (h *harness) end(id string) *fleet.Task {
	h.t.Helper()
	for begun := time.Now(); ; {
		tasks, done, err := h.WaitTasks(h.ctx(), []string{id}, service.Until{}, 50*time.Second)
		require.NoError(h.t, err)
		if done {
			return tasks[0]
		}
		require.Less(h.t, time.Since(begun), waittest.Limit, "task %s is %s", id, tasks[0].Status)
	}
}

// until waits until ok returns true for the agent.
func (h *harness) until(agent string, ok func(*fleet.AgentView) bool) *fleet.AgentView {
	h.t.Helper()
	signal, cancel := h.store.Subscribe()
	defer cancel()
	timeout := time.After(waittest.Limit)
	for {
		v, err := h.ShowAgent(h.ctx(), agent)
		require.NoError(h.t, err)
		if ok(v) {
			return v
		}
		select {
		case <-signal:
		case <-timeout:
			require.Fail(h.t, "agent did not get there", "%s: %s %s", agent, v.State, v.StateReason)
		}
	}
}

// stored waits until ok, which reads what is stored, returns true.
func (h *harness) stored(ok func() bool) {
	h.t.Helper()
	signal, cancel := h.store.Subscribe()
	defer cancel()
	waittest.Signalled(h.t, signal, ok)
}

// notAnnounced is the reason why tests of the state of places poll.
const notAnnounced = "the state of a place is kept in memory, and its changes give no signal"

// output is what the event log has of the task's output.
func (h *harness) output(id string) (text string) {
	h.t.Helper()
	err := h.Watch(h.ctx(), service.WatchRequest{TaskID: id}, func(events []fleet.Event, _ string) error {
		for _, e := range events {
			if e.Type == fleet.EventTaskOutput {
				text += e.Text
			}
		}
		return nil
	})
	require.NoError(h.t, err)
	return text
}

func reason(err error) fleet.Reason { return fleet.ReasonOf(err) }

// once calls f the n-th time it is called, and at no other time.
func once(n int, f func()) func() {
	var mu sync.Mutex
	calls := 0
	return func() {
		mu.Lock()
		calls++
		hit := calls == n
		mu.Unlock()
		if hit {
			f()
		}
	}
}
