package reconcile_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/reconcile"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
	"fleet/internal/state"
	"fleet/internal/waittest"
)

// wakePoints are the fault points between the end of a delegated task and the next turn of its parent.
var wakePoints = []string{
	reconcile.FaultFinishBefore, reconcile.FaultResultsAwaited, reconcile.FaultDispatchRecorded, reconcile.FaultDispatchAfter, reconcile.FaultMessageBefore, reconcile.FaultMessageAfter,
}

// crashingServers is a fleet whose servers die at wakePoints, one after the other. Each has a successor.
type crashingServers struct {
	*servicetest.Harness
	mu          sync.Mutex
	crashesLeft int // how many more servers die
	crashes     int // how many servers have died
	random      *rand.Rand
	tokens      map[string]string            // token of the last run, by task
	feedbacks   map[string]map[string]string // Run.Feedback, by task and run
}

func newCrashingServers(t *testing.T) *crashingServers {
	t.Helper()
	m := &crashingServers{crashesLeft: 500, random: rand.New(rand.NewPCG(1, 2)), tokens: map[string]string{}, feedbacks: map[string]map[string]string{}} //nolint:gosec // repeatable
	world := fake.Config{
		Traits: fleet.Traits{ReachesFleet: true}, Grants: map[string]*fleet.Grant{"coder": {MaxTotal: 100, PerMinute: 100}},
		Before: func(_ context.Context, c fake.Call) error {
			if c.Method != fake.Dispatch {
				return nil
			}
			m.mu.Lock()
			defer m.mu.Unlock()
			id := c.Run.TaskID[:min(36, len(c.Run.TaskID))] // the ids of later runs of a task have a suffix
			if c.FleetEndpoint != nil {
				m.tokens[id] = c.FleetEndpoint.Token
			}
			if m.feedbacks[id] == nil {
				m.feedbacks[id] = map[string]string{}
			}
			if before, again := m.feedbacks[id][c.Run.TaskID]; again && before != c.Run.Feedback {
				t.Errorf("the run %s is told something else when it is handed over again:\n%s\n%s", c.Run.TaskID, before, c.Run.Feedback)
			}
			m.feedbacks[id][c.Run.TaskID] = c.Run.Feedback
			return nil
		},
	}
	m.Harness = servicetest.New(t, world, func(c *state.Config) {
		c.LeaseTTL, c.MCPURL = 300*time.Millisecond, func() string { return "http://127.0.0.1:1/mcp" }
	})
	return m
}

// startSuccessor starts another server, which may die.
func (m *crashingServers) startSuccessor() {
	r := &servicetest.Harness{T: m.T, FakePlace: m.FakePlace, Store: m.Store, Path: m.Path, Config: m.Config}
	die := sync.OnceFunc(func() {
		go r.Reconciler.Stop()
		<-r.Reconciler.Stopping()
		m.startSuccessor()
	})
	r.Config.Fault = func(point string) {
		m.mu.Lock()
		dies := slices.Contains(wakePoints, point) && m.crashesLeft > 0 && m.random.IntN(3) == 0
		if dies {
			m.crashesLeft--
			m.crashes++
		}
		m.mu.Unlock()
		if dies {
			die()
		}
	}
	r.Restart()
	m.T.Cleanup(r.Reconciler.Stop)
}

// TestWokenOnceAcrossKills kills servers between the end of delegated tasks and the next turn of their parents. Each parent must get the
// result of each of its delegated tasks once, and each of its runs must be handed over once.
func TestWokenOnceAcrossKills(t *testing.T) {
	t.Parallel()
	m := newCrashingServers(t)
	for i := range 4 {
		m.Create(fmt.Sprintf("boss-%d", i))
	}
	m.Reconciler.Stop() // the others do the work
	m.startSuccessor()
	for round := 0; ; round++ {
		m.mu.Lock()
		done := m.crashesLeft == 0
		m.mu.Unlock()
		if done && round > 0 {
			break
		}
		var families sync.WaitGroup
		for i := range 4 {
			families.Go(func() { m.runFamily(t, fmt.Sprintf("boss-%d", i), fmt.Sprintf("%d-%d", round, i)) })
		}
		families.Wait()
		if t.Failed() {
			return
		}
	}
	t.Logf("%d servers died", m.crashes)
}

// runFamily lets the agent delegate three tasks, which end before, while and after its turn ends. It checks that the agent gets each
// result once.
func (m *crashingServers) runFamily(t *testing.T, boss, gate string) {
	t.Helper()
	parent := m.Start(boss, "wait turn-"+gate+"\ndone")
	var ctx context.Context
	waittest.Until(t, "nothing signals that the parent has a new token", func() bool {
		m.mu.Lock()
		token := m.tokens[parent.ID]
		m.mu.Unlock()
		p, err := m.Authenticate(t.Context(), token)
		ctx = fleet.WithPrincipal(t.Context(), p)
		return err == nil && p.TaskID == parent.ID
	})
	var children []*fleet.Task
	for n := range 3 {
		r := service.QueueTaskRequest{Project: "Setup", Role: "coder", NewAgent: true, MaxIdle: time.Hour}
		r.Description = fmt.Sprintf("wait child-%s-%d\ndone result %d", gate, n, n)
		var c *fleet.Task
		waittest.Until(t, "nothing signals that the parent has a new token", func() (ok bool) { // the token changes if the parent is dispatched again
			var err error
			if c, err = m.QueueTask(ctx, r); err != nil {
				m.mu.Lock()
				token := m.tokens[parent.ID]
				m.mu.Unlock()
				if p, err := m.Authenticate(t.Context(), token); err == nil {
					ctx = fleet.WithPrincipal(t.Context(), p)
				}
			}
			return err == nil
		})
		children = append(children, c)
	}
	m.FakePlace.Release(fmt.Sprintf("child-%s-0", gate))
	m.WaitTask(children[0].ID)
	m.FakePlace.Release("turn-" + gate)
	m.FakePlace.Release(fmt.Sprintf("child-%s-1", gate))
	m.WaitTask(children[1].ID)
	m.FakePlace.Release(fmt.Sprintf("child-%s-2", gate))
	ended := m.WaitTask(parent.ID)
	if ended.Status != fleet.TaskCompleted {
		t.Errorf("the parent is %s: %s", ended.Status, ended.Reason)
		return
	}
	got := map[string]int{}
	count := func(text string) {
		for _, c := range children {
			got[c.ID] += strings.Count(text, "task_id: "+c.ID)
		}
	}
	m.mu.Lock()
	runs := m.feedbacks[parent.ID]
	m.mu.Unlock()
	for run, prompt := range runs {
		count(prompt)
		for _, text := range m.FakePlace.Messages(run) {
			count(text)
		}
		if n := m.FakePlace.RunCount(run); n != 1 {
			t.Errorf("the run %s was handed over %d times", run, n)
		}
	}
	for _, c := range children {
		if got[c.ID] != 1 {
			t.Errorf("the parent %s got the result of %s %d times: %v", parent.ID, c.ID, got[c.ID], runs)
		}
		require.Equal(t, fleet.TaskCompleted, m.WaitTask(c.ID).Status)
	}
}
