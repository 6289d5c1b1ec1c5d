package reconcile_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
	"fleet/internal/state"
)

// TestWaitReasons compares the reasons why tasks wait with those of a slow model, at random moments of a busy fleet. The model
// knows only the event log and the calls of the test.
func TestWaitReasons(t *testing.T) {
	t.Parallel()
	const moments = 1000
	seed := uint64(time.Now().UnixNano()) //nolint:gosec // any number
	if text := os.Getenv("WAITS_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("WAITS_SEED=%d", seed)
	w := newWaitsWorld(t, rand.New(rand.NewPCG(seed, 0))) //nolint:gosec // repeatable
	reasons := map[fleet.WaitReason]int{}
	missing := func() []fleet.WaitReason {
		return slices.DeleteFunc([]fleet.WaitReason{
			fleet.WaitHeld, fleet.WaitNotBefore, fleet.WaitDependency, fleet.WaitDependencyFailed, fleet.WaitExclusive, fleet.WaitAgentBusy, fleet.WaitAgentOffline,
			fleet.WaitNoAgent, fleet.WaitPoolFull, fleet.WaitProvisioning, fleet.WaitPrincipalLimit, fleet.WaitBehind,
		}, func(r fleet.WaitReason) bool { return reasons[r] > 0 })
	}
	n := 0
	for ; n < moments || n < 10*moments && len(missing()) > 0; n++ { // a slow machine needs more moments for all reasons
		w.act()
		if w.random.IntN(3) == 0 {
			time.Sleep(time.Duration(w.random.IntN(3000)) * time.Microsecond) // random moments, not a wait for something
		}
		w.compare(reasons)
	}
	t.Logf("reasons at %d moments: %v", n, reasons)
	require.Empty(t, missing(), "no task waited for these reasons")
}

// stoppableClock is a clock that a test can stop.
type stoppableClock struct {
	mu sync.Mutex
	at time.Time // zero: it runs
}

func (c *stoppableClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() {
		return time.Now().UTC()
	}
	return c.at
}

func (c *stoppableClock) freeze() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = time.Now().UTC()
	return c.at
}

func (c *stoppableClock) thaw() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = time.Time{}
}

// haltableStore is a store in which nothing changes while a test holds halt.
type haltableStore struct {
	fleet.Store

	halt sync.RWMutex
}

func (s *haltableStore) Update(ctx context.Context, fn func(fleet.Tx) error) error {
	s.halt.RLock()
	defer s.halt.RUnlock()
	return s.Store.Update(ctx, fn)
}

// Limits of the fleet under test.
const (
	maxRunningTasks = 4                      // running tasks of a principal
	ageStep         = 150 * time.Millisecond // the priority of a pending task rises by one after each
	maxPendingTasks = 25                     // pending tasks
)

// waitsWorld is a fleet and a model of this fleet.
type waitsWorld struct {
	*servicetest.Harness

	random *rand.Rand
	clock  *stoppableClock
	store  *haltableStore
	gates  int // number of gates so far, for their names

	seq      int64 // the model has the events up to this one
	tasks    map[string]*modelTask
	ids      []string // ids of all tasks, in the order in which the test has queued them
	agents   map[string]*modelAgent
	pools    map[string]*fleet.Pool // by name
	pausedBy string                 // the principal who has paused the fleet; empty if it is not paused
	role     fleet.ProjectRole      // the role of all agents
}

// modelTask is the model of a task, from the calls and the event log.
type modelTask struct {
	id      string
	owner   string
	entry   fleet.QueueEntry
	created time.Time
	status  fleet.TaskStatus
	agent   string // uid; empty if no agent was chosen yet
	gate    string // its run waits until this gate is released
}

// modelAgent is the model of an agent, from the calls and the event log.
type modelAgent struct {
	uid, name, owner, pool string
	state                  fleet.State
	desired                fleet.DesiredState
	startRequested         bool      // a start was requested, and has not begun
	task                   string    // id of the task that it works on; empty if there is none
	usedAt                 time.Time // when it last began or ended a task, or changed
}

func newWaitsWorld(t *testing.T, r *rand.Rand) *waitsWorld {
	w := &waitsWorld{random: r, clock: &stoppableClock{}, tasks: map[string]*modelTask{}, agents: map[string]*modelAgent{}, pools: map[string]*fleet.Pool{}}
	w.Harness = servicetest.NewOver(t, fake.Config{}, func(c *state.Config) {
		c.Now, c.AgeStep, c.CreateWait, c.Limits = w.clock.now, ageStep, time.Millisecond, fleet.Limits{RunningTasks: maxRunningTasks}
		c.Logger = nil
	}, func(s fleet.Store) fleet.Store {
		w.store = &haltableStore{Store: s}
		return w.store
	})
	for _, m := range []fake.Method{fake.Provision, fake.Start, fake.Stop, fake.Delete} {
		w.FakePlace.Delay(m, 20*time.Millisecond)
	}
	for _, owner := range []string{"alice", "bob"} {
		for i := range 3 {
			v, _, err := w.CreateAgent(servicetest.As(t.Context(), owner), service.CreateAgentRequest{Name: fmt.Sprintf("%s-%d", owner, i), Project: "Setup", Spec: "a spec"})
			require.NoError(t, err)
			w.role = fleet.ProjectRole{Place: v.Place, Project: v.Project, Role: v.Role}
		}
	}
	for name, reuse := range map[string]fleet.ReusePolicy{"any": fleet.ReuseAny, "same": fleet.ReuseSame, "fresh": fleet.ReuseFresh} {
		pool := fleet.Pool{Name: name, MaxAgents: 2, MaxCreating: 1, MaxIdle: time.Second, Reuse: reuse}
		_, err := w.CreatePool(w.Context(), service.CreatePoolRequest{Pool: pool, Project: "Setup"})
		require.NoError(t, err)
		w.pools[name] = &pool
	}
	return w
}

// anyOf returns a random task for which fits returns true, or nil if there is none.
func (w *waitsWorld) anyOf(fits func(*modelTask) bool) *modelTask {
	var all []*modelTask
	for _, id := range w.ids {
		if m := w.tasks[id]; m != nil && fits(m) {
			all = append(all, m)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all[w.random.IntN(len(all))]
}

func isPending(m *modelTask) bool { return m.status == fleet.TaskPending }
func isRunning(m *modelTask) bool { return m.status == fleet.TaskRunning }
func hasEnded(m *modelTask) bool  { return m.status.Ended() }

// act does something at random: it makes a call and records its effect in the model, or it lets a run end.
func (w *waitsWorld) act() {
	pending := 0
	for _, m := range w.tasks {
		if isPending(m) {
			pending++
		}
	}
	switch n := w.random.IntN(100); {
	case n < 40 && pending < maxPendingTasks:
		w.queueTask()
	case n < 65:
		if m := w.anyOf(isRunning); m != nil {
			w.FakePlace.Release(m.gate)
		}
	case n < 75:
		w.changeTask()
	case n < 85:
		w.holdOrReleaseTask()
	case n < 88:
		w.changeAgent()
	case n < 90:
		w.pauseOrResumeFleet()
	case n < 97:
		if m := w.anyOf(isPending); m != nil { // otherwise tasks that can never start would fill the queue
			_, _, err := w.StopTaskByID(w.as(m), m.id, "")
			require.NoError(w.T, err)
		}
	default:
		if m := w.anyOf(hasEnded); m != nil {
			_, err := w.DeleteTask(w.as(m), m.id, "")
			require.NoError(w.T, err)
		}
	}
}

// as returns a context for calls by the owner of the task.
func (w *waitsWorld) as(m *modelTask) context.Context { return servicetest.As(w.T.Context(), m.owner) }

func (w *waitsWorld) queueTask() {
	r := w.random
	m := &modelTask{owner: "alice", status: fleet.TaskPending, gate: fmt.Sprint("gate-", w.gates)}
	w.gates++
	end := "done well"
	if r.IntN(4) == 0 {
		end = "fail badly"
	}
	request := service.QueueTaskRequest{StartTaskRequest: service.StartTaskRequest{Description: "wait " + m.gate + "\n" + end}}
	switch r.IntN(6) {
	case 0, 1:
		request.Pool = []string{"any", "same", "fresh"}[r.IntN(3)]
	case 2:
		request.Project = "Setup"
		if r.IntN(3) == 0 {
			m.owner = "carol" // has no agent
		}
	default:
		if r.IntN(2) == 0 {
			m.owner = "bob"
		}
		request.Agent = fmt.Sprintf("%s-%d", m.owner, r.IntN(3))
	}
	e := &request.Entry
	e.Priority = r.IntN(5)
	if r.IntN(6) == 0 {
		e.NotBefore = w.clock.now().Add(time.Duration(r.IntN(300)) * time.Millisecond)
	}
	if r.IntN(8) == 0 {
		e.Expires = w.clock.now().Add(time.Duration(400+r.IntN(300)) * time.Millisecond)
	}
	if r.IntN(4) == 0 {
		e.ExclusiveKey = fmt.Sprint("key-", r.IntN(2))
	}
	request.Hold = r.IntN(10) == 0
	for range r.IntN(3) {
		dep := w.anyOf(func(d *modelTask) bool { return d.owner == m.owner })
		if dep != nil && !slices.ContainsFunc(e.Dependencies, func(d fleet.Dependency) bool { return d.TaskID == dep.id }) {
			e.Dependencies = append(e.Dependencies, fleet.Dependency{TaskID: dep.id, AnyEnd: r.IntN(2) == 0})
		}
	}
	task, err := w.QueueTask(w.as(m), request)
	if fleet.ReasonOf(err) == fleet.ReasonTaskNotFound { // a task of the dependencies was deleted
		return
	}
	require.NoError(w.T, err)
	m.id, m.agent, m.entry = task.ID, task.AgentUID, *e
	m.entry.By = m.owner
	if request.Hold {
		m.entry.HeldBy = m.owner
	}
	m.entry.Target = fleet.Target{Pool: request.Pool}
	if request.Agent == "" {
		m.entry.Target.ProjectRole = w.role
	}
	w.tasks[m.id], w.ids = m, append(w.ids, m.id)
}

// stillPending reports whether the task was pending when the call was made, which returned err. It fails the test if the call
// failed for another reason.
func (w *waitsWorld) stillPending(m *modelTask, err error) bool {
	w.T.Helper()
	expired := !m.entry.Expires.IsZero() && !m.entry.Expires.After(w.clock.now())
	if reason := fleet.ReasonOf(err); reason == fleet.ReasonTaskNotPending || expired && reason == fleet.ReasonInvalidArgument {
		return false
	}
	require.NoError(w.T, err)
	return true
}

func (w *waitsWorld) changeTask() {
	m := w.anyOf(isPending)
	if m == nil {
		return
	}
	request := service.UpdateQueuedTaskRequest{TaskID: m.id}
	entry := m.entry
	switch w.random.IntN(3) {
	case 0:
		entry.Priority = w.random.IntN(5)
		request.Priority = &entry.Priority
	case 1:
		entry.ExclusiveKey = []string{"", "key-0", "key-1"}[w.random.IntN(3)]
		request.Exclusive = &entry.ExclusiveKey
	default:
		entry.Dependencies = nil
		request.After = &entry.Dependencies
	}
	if _, err := w.UpdateQueuedTask(w.as(m), request); w.stillPending(m, err) {
		m.entry = entry
	}
}

func (w *waitsWorld) holdOrReleaseTask() {
	m := w.anyOf(isPending)
	if m == nil {
		return
	}
	if m.entry.HeldBy != "" {
		if _, err := w.ReleaseTask(w.as(m), m.id, ""); w.stillPending(m, err) {
			m.entry.HeldBy = ""
		}
	} else if w.random.IntN(6) == 0 {
		if _, err := w.HoldTask(w.as(m), m.id, ""); w.stillPending(m, err) {
			m.entry.HeldBy = m.owner
		}
	}
}

// changeAgent stops or starts an agent that is in no pool.
func (w *waitsWorld) changeAgent() {
	name := fmt.Sprintf("alice-%d", w.random.IntN(3))
	for _, a := range w.agents {
		switch {
		case a.name != name:
		case a.desired == fleet.DesiredRunning && w.random.IntN(4) == 0:
			if _, _, err := w.StopAgent(w.Context(), name, ""); err == nil {
				a.desired, a.startRequested = fleet.DesiredStopped, false
			}
		case a.desired == fleet.DesiredStopped:
			if _, _, err := w.StartAgent(w.Context(), name, ""); err == nil {
				a.desired, a.startRequested = fleet.DesiredRunning, true
			}
		}
	}
}

func (w *waitsWorld) pauseOrResumeFleet() {
	admin := servicetest.AsAdmin(w.T.Context())
	if w.pausedBy != "" {
		_, err := w.ResumeFleet(admin)
		require.NoError(w.T, err)
		w.pausedBy = ""
	} else if w.random.IntN(3) == 0 {
		p, err := w.PauseFleet(admin, "for a test")
		require.NoError(w.T, err)
		w.pausedBy = p.By
	}
}

// eventsAfter returns the first events of the log after the Seq, at most limit.
func (w *waitsWorld) eventsAfter(seq int64, limit int) []fleet.Event {
	w.T.Helper()
	return servicetest.Read(w.Harness, func(tx fleet.ReadTx) ([]fleet.Event, error) {
		return tx.Events(fleet.EventFilter{}, fleet.EventWindow{After: seq, Limit: limit})
	})
}

// replay adds the new events of the log to the model.
func (w *waitsWorld) replay() {
	for {
		events := w.eventsAfter(w.seq, 1000)
		if len(events) == 0 {
			return
		}
		for _, e := range events {
			w.applyEvent(e)
			w.seq = e.Seq
		}
	}
}

func (w *waitsWorld) applyEvent(e fleet.Event) {
	m, a := w.tasks[e.TaskID], w.agents[e.AgentUID]
	switch e.Type {
	case fleet.EventAgentCreated:
		pool, _, _ := strings.Cut(e.AgentName, "-")
		if w.pools[pool] == nil {
			pool = ""
		}
		w.agents[e.AgentUID] = &modelAgent{uid: e.AgentUID, name: e.AgentName, owner: e.Owner, pool: pool, state: fleet.State(e.Status), desired: fleet.DesiredRunning, usedAt: e.Time}
	case fleet.EventAgentChanged:
		a.state, a.usedAt = fleet.State(e.Status), e.Time
		a.startRequested = a.startRequested && a.state != fleet.StateStarting
		if a.state == fleet.StateDeleting || strings.HasPrefix(e.Text, "deleted because") {
			a.desired = fleet.DesiredDeleted
		}
	case fleet.EventAgentDeleted:
		delete(w.agents, e.AgentUID)
	case fleet.EventTaskCreated:
		m.created = e.Time
	case fleet.EventTaskAssigned:
		m.status, m.agent = fleet.TaskRunning, e.AgentUID
		a.task, a.usedAt = m.id, e.Time
	case fleet.EventTaskEnded:
		m.status = fleet.TaskStatus(e.Status)
		if a != nil && a.task == m.id {
			a.task, a.usedAt = "", e.Time
		}
	case fleet.EventTaskDeleted:
		delete(w.tasks, e.TaskID)
	}
}

// compare compares the reasons of all tasks with those of the model, and adds them to reasons. Meanwhile the fleet does not change.
func (w *waitsWorld) compare(reasons map[fleet.WaitReason]int) {
	w.T.Helper()
	now := w.clock.freeze()
	defer w.clock.thaw()
	w.store.halt.Lock()
	defer w.store.halt.Unlock()
	w.replay()
	l, err := w.ListQueue(servicetest.AsAdmin(w.T.Context()), service.ListQueueRequest{PageRequest: fleet.PageRequest{Limit: new(500)}})
	require.NoError(w.T, err)
	var shown *service.TaskDetails // a random one of the queued tasks
	if len(l.Items) > 0 {
		shown, err = w.ShowTask(servicetest.AsAdmin(w.T.Context()), l.Items[w.random.IntN(len(l.Items))].ID, nil)
		require.NoError(w.T, err)
	}
	var got []string
	for _, i := range l.Items {
		got = append(got, w.line(i))
		for _, wait := range i.Waits {
			reasons[wait.Reason]++
		}
	}
	if shown != nil {
		require.Equal(w.T, got[shown.QueueItem.Position-1], w.line(*shown.QueueItem))
	}
	want := w.explain(now)
	if !slices.Equal(want, got) {
		for _, e := range w.lastEvents() {
			w.T.Log(e)
		}
		require.Equal(w.T, want, got, "at %s, event %d", now, w.seq)
	}
}

// line describes why the task waits, as explain does.
func (w *waitsWorld) line(i service.QueueItem) string {
	line := w.name(i.ID)
	for _, wait := range i.Waits {
		line += fmt.Sprintf(", %s %s", wait.Reason, w.name(wait.Subject))
	}
	return line
}

// name returns a short name for the id of a task.
func (w *waitsWorld) name(id string) string {
	if i := slices.Index(w.ids, id); i >= 0 {
		return fmt.Sprint("task-", i)
	}
	return id
}

// lastEvents returns a line for each of the newest events of the model.
func (w *waitsWorld) lastEvents() (lines []string) {
	for _, e := range w.eventsAfter(max(0, w.seq-60), 100) {
		lines = append(lines, fmt.Sprintf("%d %s %s %s %s %s %q", e.Seq, e.Time.Format("05.000"), e.Type, e.AgentName, w.name(e.TaskID), e.Status, fleet.Shorten(e.Text, 80)))
	}
	return lines
}
