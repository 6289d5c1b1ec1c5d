package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/store/postgres/pgtest"
)

// The pool of TestChaosQueue.
const (
	queuePool   = "queue"
	queueAgents = 6
)

// queuedTask is a task that TestChaosQueue has queued.
type queuedTask struct {
	id        string
	after     []string // ids of the tasks that it depends on
	exclusive string
}

// TestChaosQueue queues tasks with random priorities, dependencies and exclusive keys for a pool, while faults happen to three servers on
// Postgres, and to one on SQLite. Each task must run once, after its dependencies, and never beside another one with its key, and the pool
// must keep its limit. With CHAOS, it queues 10,000 tasks.
func TestChaosQueue(t *testing.T) {
	pgtest.Need(t)
	count := 150
	if os.Getenv("CHAOS") != "" {
		count = 10_000
	}
	dir := t.TempDir()
	db := newDatabase(t, false)
	for name, servers := range map[string]int{"Postgres": 3, "SQLite": 1} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, name, fleet.Limits{Agents: 1000, RunningTasks: 1000})
			for i := range servers {
				id, data := fmt.Sprintf("q-%s-%d", strings.ToLower(name), i+1), filepath.Join(dir, fmt.Sprintf("%s%d", name, i+1))
				if servers > 1 {
					f.addTo(t, db, id, data)
				} else {
					f.add(t, id, data)
				}
			}
			f.start(t)
			testQueue(t, f, count)
		})
	}
}

func testQueue(t *testing.T, f *fleetUnder, count int) {
	require.NoError(t, overGRPC(t.Context(), f.servers[0], "CreatePool", &fleetv1.CreatePoolRequest{
		Name: queuePool, Project: fake.DefaultProjects()[0].Name, MaxAgents: new(int32(queueAgents)), MaxIdleSeconds: new(int32(2)),
	}, &fleetv1.CreatePoolResponse{}))
	faults := &faultLog{kinds: map[string]*faultStats{}}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var troubles sync.WaitGroup
	for i, s := range f.servers {
		kinds := serverFaults(s)
		delete(kinds, "wrong clock") // times are compared by the order of events, but expiry is not
		troubles.Go(func() {
			if err := faults.afflict(ctx, s, kinds, rand.New(rand.NewPCG(1, uint64(i)))); err != nil { //nolint:gosec // repeatable
				t.Error(err)
			}
		})
	}
	began := time.Now()
	tasks := f.queueTasks(t, count)
	all := time.Since(began)
	f.awaitEmptyQueue(t, time.Duration(count)*100*time.Millisecond+patience)
	stop()
	troubles.Wait()
	f.settle(t)
	t.Logf("%s: %d tasks were queued in %s and had ended after %s, with %d faults", f.name, count, all.Round(time.Millisecond), time.Since(began).Round(time.Millisecond), faults.count())
	checkQueue(t, f, tasks)
}

// queueTasks queues the tasks from several callers, who repeat a request until it is answered.
func (f *fleetUnder) queueTasks(t *testing.T, count int) map[string]*queuedTask {
	var mu sync.Mutex
	tasks := map[string]*queuedTask{}
	var ids []string
	var callers sync.WaitGroup
	const clients = 4
	for client := range clients {
		callers.Go(func() {
			r := rand.New(rand.NewPCG(2, uint64(client))) //nolint:gosec // repeatable
			for n := range count / clients {
				q := &queuedTask{}
				request := &fleetv1.QueueTaskRequest{
					Pool: queuePool, RequestId: fmt.Sprintf("q-%d-%d", client, n), Priority: new(int32(r.IntN(201) - 100)), TaskDescription: fmt.Sprintf("work %dms\ndone well", r.IntN(20)),
				}
				mu.Lock()
				for range r.IntN(3) {
					if len(ids) > 0 {
						if id := ids[len(ids)-1-r.IntN(min(len(ids), 50))]; !slices.Contains(q.after, id) {
							q.after = append(q.after, id)
							request.DependsOn = append(request.DependsOn, &fleetv1.Dependency{TaskId: id})
						}
					}
				}
				mu.Unlock()
				if r.IntN(5) == 0 {
					q.exclusive = fmt.Sprint("key", r.IntN(3))
					request.Exclusive = q.exclusive
				}
				for t.Context().Err() == nil {
					answer := &fleetv1.QueueTaskResponse{}
					err := f.call(r, "QueueTask", request, answer)
					if err == nil {
						q.id = answer.GetTask().GetId()
						break
					}
					if reason := reasonOf(err); reason == "TASK_NOT_FOUND" || reason == "INVALID_ARGUMENT" || reason == "POOL_NOT_FOUND" {
						t.Errorf("%s: a task is refused: %v", f.name, err)
						return
					}
				}
				mu.Lock()
				tasks[q.id] = q
				ids = append(ids, q.id)
				mu.Unlock()
			}
		})
	}
	callers.Wait()
	return tasks
}

// awaitEmptyQueue waits until no task is pending.
func (f *fleetUnder) awaitEmptyQueue(t *testing.T, limit time.Duration) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for i := 0; ; i++ {
		answer := &fleetv1.ShowQueueResponse{}
		call, done := context.WithTimeout(ctx, callLimit)
		err := overGRPC(call, f.servers[i%len(f.servers)], "ShowQueue", &fleetv1.ShowQueueRequest{}, answer)
		done()
		if err == nil && answer.GetPending() == 0 {
			return
		}
		pause(ctx, 100*time.Millisecond)
		if ctx.Err() != nil {
			t.Errorf("%s: tasks still wait: %v, %v", f.name, answer, err)
			return
		}
	}
}

// checkQueue compares the event log with what was queued.
func checkQueue(t *testing.T, f *fleetUnder, tasks map[string]*queuedTask) {
	stream, err := fleetv1.NewFleetServiceClient(f.servers[0].conn).WatchFleet(t.Context(), &fleetv1.WatchFleetRequest{Cursor: "0", Quiet: true})
	require.NoError(t, err)
	begun, ended := map[string]int{}, map[string]int{} // places in the log
	running := map[string]string{}                     // task by exclusive key
	existing := map[string]bool{}                      // agents of the pool
	most := 0
	n := 0
	see := func(e *fleetv1.Event) {
		n++
		q := tasks[e.GetTaskId()]
		switch e.GetType() {
		case fleetv1.Event_agent_created:
			existing[e.GetAgentName()] = true
			most = max(most, len(existing))
		case fleetv1.Event_agent_deleted:
			delete(existing, e.GetAgentName())
		case fleetv1.Event_task_assigned:
			require.NotNil(t, q)
			require.Zero(t, begun[q.id], "the task %s begins twice", q.id)
			begun[q.id] = n
			for _, dep := range q.after {
				require.NotZero(t, ended[dep], "the task %s begins before %s ends", q.id, dep)
			}
			if q.exclusive != "" {
				require.Empty(t, running[q.exclusive], "two tasks with the key %s run", q.exclusive)
				running[q.exclusive] = q.id
			}
		case fleetv1.Event_task_ended:
			require.NotNil(t, q)
			require.Equal(t, "completed", e.GetStatus(), e.GetText())
			require.Zero(t, ended[q.id], "the task %s ends twice", q.id)
			require.NotZero(t, begun[q.id], "the task %s ends before it begins", q.id)
			ended[q.id] = n
			if q.exclusive != "" {
				delete(running, q.exclusive)
			}
		}
	}
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		for _, e := range m.GetEvents() {
			see(e)
		}
	}
	require.Len(t, ended, len(tasks))
	require.LessOrEqual(t, most, queueAgents, "agents at the same time")
	for id := range tasks {
		require.LessOrEqual(t, f.world.Deliveries(id), 1, "the task %s has run more than once", id)
	}
}
