package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
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

// ageStep is short, so that tasks of the lowest priority overtake new ones many times.
const ageStep = 20 * time.Millisecond

// queuedTask is a task that TestChaosQueue has queued.
type queuedTask struct {
	id        string
	priority  int
	dependsOn []string // ids of the tasks that it depends on
	exclusive string   // its exclusive key; "" for none
}

// queueRun records the tasks that TestChaosQueue has queued, and the calm times, in which nothing disturbed the servers.
type queueRun struct {
	store fleet.Store // of the servers, opened again
	calm  []span

	mu    sync.Mutex
	tasks map[string]*queuedTask // by id
	ids   []string               // of the tasks in the order of the answers, without those of the flood
}

type span struct{ begin, end time.Time }

func (s span) contains(at time.Time) bool { return at.After(s.begin) && at.Before(s.end) }

// TestChaosQueue queues tasks with random priorities, dependencies and exclusive keys for a pool. Meanwhile, tasks with the
// highest priority are queued all the time, and faults happen to three servers on Postgres, and to one on SQLite. Each task
// must run once, after its dependencies, in the order of the queue, and never while another task with its key runs. The pool
// must keep its limit, and none of its agents may be free while a task could start. With CHAOS, it queues 10,000 tasks.
func TestChaosQueue(t *testing.T) {
	pgtest.SkipUnlessEnabled(t)
	count := 150
	if os.Getenv("CHAOS") != "" {
		count = 10_000
	}
	onStores(t, "q", fleet.Limits{Agents: 1000, RunningTasks: 1000}, func(t *testing.T, f *fleetUnderLoad, store fleet.Store) { testQueue(t, f, store, count) })
}

func testQueue(t *testing.T, f *fleetUnderLoad, store fleet.Store, count int) {
	mustCall(t, f.servers[0], fleetv1.FleetServiceClient.CreatePool, &fleetv1.CreatePoolRequest{
		Name: queuePool, Project: fake.DefaultProjects()[0].Name, MaxAgents: new(int32(queueAgents)), MaxIdleSeconds: new(int32(2)),
	})
	run := &queueRun{store: store, tasks: map[string]*queuedTask{}}
	faults := &faultLog{kinds: map[string]*faultStats{}}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var injector, flood sync.WaitGroup
	injector.Go(func() { run.injectFaults(ctx, t, f, faults) })
	flooding, stopFlood := context.WithCancel(ctx)
	defer stopFlood()
	flood.Go(func() { run.flood(flooding, t, f) })
	began := time.Now()
	run.queueTasks(ctx, t, f, count)
	queuedAfter := time.Since(began)
	limit := time.Duration(count)*100*time.Millisecond + operationTimeout
	f.awaitQueue(t, count/100, limit)
	stopFlood()
	flood.Wait()
	f.awaitQueue(t, 0, limit)
	stop()
	injector.Wait()
	f.settle(t)
	t.Logf("%s: %d tasks were queued in %s, and %d more as a flood; all had ended after %s, with %d faults",
		f.name, count, queuedAfter.Round(time.Second), len(run.tasks)-count, time.Since(began).Round(time.Second), faults.count())
	run.check(t, f, faults)
}

// The lengths of a round of faults, and of the times after it.
const (
	roundOfFaults = 5 * time.Second
	afterFaults   = 5*time.Second + leaseTTL // until the database has ended the transactions of lost connections, and old leases have expired
	calmTime      = 3 * time.Second
)

// injectFaults injects faults into all servers, with calm times between them, until ctx is done.
func (run *queueRun) injectFaults(ctx context.Context, t *testing.T, f *fleetUnderLoad, faults *faultLog) {
	var generators []*rand.Rand
	for i := range f.servers {
		generators = append(generators, random(1, uint64(i)))
	}
	for ctx.Err() == nil {
		round, done := context.WithTimeout(ctx, roundOfFaults)
		var servers sync.WaitGroup
		for i, s := range f.servers {
			faultFuncs := serverFaults(s)
			delete(faultFuncs, "wrong clock") // times are compared
			delete(faultFuncs, "frozen")      // it lasts until the store gives up a statement after 10 s, so there would be no calm times
			delete(faultFuncs, "black hole")  // the same
			servers.Go(func() {
				if err := faults.inject(round, s, faultFuncs, generators[i]); err != nil {
					t.Error(err)
				}
			})
		}
		servers.Wait()
		done()
		pause(ctx, afterFaults)
		begin := time.Now()
		pause(ctx, calmTime)
		run.calm = append(run.calm, span{begin, time.Now()})
	}
}

// queueTasks queues the tasks from several callers.
func (run *queueRun) queueTasks(ctx context.Context, t *testing.T, f *fleetUnderLoad, count int) {
	var callers sync.WaitGroup
	const clients = 10
	for client := range clients {
		callers.Go(func() {
			r := random(2, uint64(client))
			for n := range count / clients {
				q := run.randomTask(r)
				run.queue(ctx, t, f, r, q, fmt.Sprintf("q-%d-%d", client, n))
				run.mu.Lock()
				run.ids = append(run.ids, q.id)
				run.mu.Unlock()
			}
		})
	}
	callers.Wait()
}

// randomTask returns a random task, which may depend on earlier ones.
func (run *queueRun) randomTask(r *rand.Rand) *queuedTask {
	run.mu.Lock()
	defer run.mu.Unlock()
	q := &queuedTask{priority: r.IntN(2*fleet.MaxPriority+1) - fleet.MaxPriority}
	for range r.IntN(3) {
		if n := len(run.ids); n > 0 {
			if id := run.ids[n-1-r.IntN(min(n, 50))]; !slices.Contains(q.dependsOn, id) {
				q.dependsOn = append(q.dependsOn, id)
			}
		}
	}
	if r.IntN(5) == 0 {
		q.exclusive = fmt.Sprint("key", r.IntN(3))
	}
	return q
}

// flood queues tasks with the highest priority, one after the other, until ctx is done.
func (run *queueRun) flood(ctx context.Context, t *testing.T, f *fleetUnderLoad) {
	r := random(3, 0)
	for n := 0; ctx.Err() == nil; n++ {
		run.queue(context.WithoutCancel(ctx), t, f, r, &queuedTask{priority: fleet.MaxPriority}, fmt.Sprint("flood-", n))
		pause(ctx, 50*time.Millisecond)
	}
}

// queue queues the task. It repeats the request while its outcome is unknown or a limit is reached. Another refusal fails the test.
func (run *queueRun) queue(ctx context.Context, t *testing.T, f *fleetUnderLoad, r *rand.Rand, q *queuedTask, id string) {
	request := &fleetv1.QueueTaskRequest{
		Pool: queuePool, RequestId: id, Priority: new(int32(q.priority)), Exclusive: q.exclusive, TaskDescription: fmt.Sprintf("work %dms\ndone well", r.IntN(20)),
	}
	for _, dep := range q.dependsOn {
		request.DependsOn = append(request.DependsOn, &fleetv1.Dependency{TaskId: dep})
	}
	for ctx.Err() == nil {
		answer := &fleetv1.QueueTaskResponse{}
		err := f.call(r, "QueueTask", request, answer)
		if err == nil {
			q.id = answer.GetTask().GetId()
			run.mu.Lock()
			run.tasks[q.id] = q
			run.mu.Unlock()
			return
		}
		switch reasonOf(err) {
		case "":
		case string(fleet.ReasonLimitReached):
			pause(ctx, retryPause)
		default:
			t.Errorf("%s: a task was refused: %v", f.name, err)
			return
		}
	}
}

// awaitQueue waits until the number of pending tasks is not larger than most. It also checks the bound that the queue reports.
func (f *fleetUnderLoad) awaitQueue(t *testing.T, most int, limit time.Duration) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for i := 0; ; i++ {
		answer := &fleetv1.ShowQueueResponse{}
		callCtx, done := context.WithTimeout(ctx, callTimeout)
		err := overGRPC(callCtx, f.servers[i%len(f.servers)], "ShowQueue", &fleetv1.ShowQueueRequest{}, answer)
		done()
		if err == nil {
			require.EqualValues(t, (2 * fleet.MaxPriority * ageStep).Seconds(), answer.GetOvertakeSeconds())
		}
		if err == nil && int(answer.GetPending()) <= most {
			return
		}
		if i%100 == 99 && testing.Verbose() {
			t.Logf("%s: %d tasks are pending, %s", f.name, answer.GetPending(), strings.Join(strings.Fields(fmt.Sprint(answer.GetReasons())), " "))
		}
		pause(ctx, 200*time.Millisecond)
		if ctx.Err() != nil {
			t.Errorf("%s: tasks still wait: %v, %v", f.name, answer, err)
			return
		}
	}
}
