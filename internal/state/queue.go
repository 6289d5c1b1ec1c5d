package state

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"fleet/internal/fleet"
)

// Queue has the tasks of the queue that have not ended, the tasks that these depend on, the pools, the schedules, the credentials,
// and whether the fleet is paused. It is in memory, so that nobody reads thousands of rows to decide what starts next.
type Queue struct {
	store fleet.Store

	refreshing sync.Mutex // held during a refresh

	mu          sync.Mutex
	loaded      bool
	seq         int64               // events up to it are included
	revision    int64               // see Revision
	tasks       []*fleet.QueuedTask // in the order in which they were queued; replaced or appended to, never changed
	known       map[string]bool     // the ids of tasks
	pendingBy   map[string]int      // the number of pending tasks, by who has queued them
	dependees   map[string]fleet.Dependee
	pools       []*fleet.Pool
	paused      *fleet.Pause
	schedules   []*fleet.Schedule
	credentials map[string]*fleet.Credential // by name
	ended       map[string]bool              // see TakeEnded
}

// queueEvents are the events after which a task of the queue, or what it waits for, may be different.
var queueEvents = []fleet.EventType{
	fleet.EventTaskCreated, fleet.EventTaskQueued, fleet.EventTaskAssigned, fleet.EventTaskEnded, fleet.EventTaskDeleted, fleet.EventTaskLabelled, fleet.EventTaskDelegated,
	fleet.EventPoolChanged, fleet.EventFleetChanged, fleet.EventSchedule, fleet.EventAgentCreated, fleet.EventAgentChanged, fleet.EventAgentDeleted,
}

// queueBatch is how many events a refresh reads at a time.
const queueBatch = 1000

// Refresh reads what has changed since the last call.
func (q *Queue) Refresh(ctx context.Context) error {
	q.refreshing.Lock()
	defer q.refreshing.Unlock()
	last, err := q.store.LastSeq(ctx)
	if err != nil {
		return err
	}
	q.mu.Lock()
	begun, seq := q.loaded, q.seq
	q.mu.Unlock()
	if begun && seq == last {
		return nil
	}
	var changed, ended map[string]bool
	var tasks []*fleet.QueuedTask
	var pools []*fleet.Pool
	var pause *fleet.Pause
	var sched []*fleet.Schedule
	creds := map[string]*fleet.Credential{}
	deps := map[string]fleet.Dependee{}
	err = q.store.View(ctx, func(tx fleet.ReadTx) (err error) {
		changed, ended, seq = map[string]bool{}, map[string]bool{}, q.seq
		clear(deps)
		if !begun {
			if seq, err = tx.LastSeq(); err != nil {
				return err
			}
			if tasks, err = tx.Queue(fleet.QueueFilter{All: true}); err != nil {
				return err
			}
		} else if tasks, seq, err = readChanges(tx, seq, changed, ended); err != nil {
			return err
		}
		if !begun || changed[""] { // events about pools, agents and the fleet name no task
			if pools, err = fleet.ReadResources[fleet.Pool](tx, fleet.ResourceFilter{Kind: fleet.PoolKind}); err != nil {
				return err
			}
			if pause, err = fleet.ReadPause(tx); err != nil {
				return err
			}
			if sched, err = fleet.ReadResources[fleet.Schedule](tx, fleet.ResourceFilter{Kind: fleet.ScheduleKind}); err != nil {
				return err
			}
			all, err := fleet.ReadResources[fleet.Credential](tx, fleet.ResourceFilter{Kind: fleet.CredentialKind})
			if err != nil {
				return err
			}
			clear(creds)
			for _, c := range all {
				creds[c.Name] = c
			}
		}
		return q.readDependees(tx, tasks, changed, deps)
	})
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if !begun {
		q.dependees = map[string]fleet.Dependee{}
	}
	if !begun || len(changed) > 0 {
		q.revision++
		q.merge(tasks, changed)
	}
	q.noteEnded(ended)
	maps.Copy(q.dependees, deps)
	if len(q.dependees) > maxDependees {
		q.forgetDependees()
	}
	if !begun || changed[""] {
		q.pools, q.paused, q.schedules, q.credentials = pools, pause, sched, creds
	}
	q.loaded, q.seq = true, seq
	return nil
}

// merge replaces the changed tasks by others, which are all changed ones that have not ended. The caller holds the lock.
func (q *Queue) merge(others []*fleet.QueuedTask, changed map[string]bool) {
	slices.SortFunc(others, inOrder)
	onlyNew := len(others) == 0 || len(q.tasks) == 0 || inOrder(q.tasks[len(q.tasks)-1], others[0]) < 0
	for id := range changed {
		onlyNew = onlyNew && !q.known[id]
	}
	if onlyNew && q.known != nil { // as when thousands are queued, one after the other
		q.tasks = append(q.tasks, others...)
		q.count(others)
		return
	}
	all := make([]*fleet.QueuedTask, 0, len(q.tasks)+len(others))
	for _, t := range q.tasks {
		if !changed[t.ID] {
			all = append(all, t)
		}
	}
	all = append(all, others...)
	slices.SortFunc(all, inOrder)
	q.tasks, q.known, q.pendingBy = all, map[string]bool{}, map[string]int{}
	q.count(all)
}

// count adds the tasks to what is known of all.
func (q *Queue) count(tasks []*fleet.QueuedTask) {
	for _, t := range tasks {
		q.known[t.ID] = true
		if t.Status == fleet.TaskPending {
			q.pendingBy[t.Entry.By]++
		}
	}
}

// inOrder compares tasks by when they were queued.
func inOrder(a, b *fleet.QueuedTask) int {
	return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), strings.Compare(a.ID, b.ID))
}

// maxDependees is how many tasks that others depended on may be kept in memory without a look at who still does.
const maxDependees = 20_000

// forgetDependees removes the tasks that no task of the queue depends on. The caller holds the lock.
func (q *Queue) forgetDependees() {
	needed := map[string]fleet.Dependee{}
	for _, t := range q.tasks {
		for _, id := range t.Entry.DependeeIDs() {
			needed[id] = q.dependees[id]
		}
	}
	q.dependees = needed
}

// readChanges reads the tasks that have events after the Seq. It adds their ids to changed, and the agents of those that have ended to
// ended.
func readChanges(tx fleet.ReadTx, seq int64, changed, ended map[string]bool) (tasks []*fleet.QueuedTask, last int64, err error) {
	for {
		events, err := tx.Events(fleet.EventFilter{Types: queueEvents}, fleet.EventWindow{After: seq, Limit: queueBatch})
		if err != nil {
			return nil, 0, err
		}
		for _, e := range events {
			changed[e.TaskID] = true
			if e.Type == fleet.EventTaskEnded {
				ended[e.AgentUID] = true
			}
			seq = e.Seq
		}
		if len(events) < queueBatch {
			break
		}
	}
	ids := make([]string, 0, len(changed))
	for id := range changed {
		ids = append(ids, id)
	}
	tasks, err = tx.Queue(fleet.QueueFilter{TaskIDs: ids})
	if err != nil {
		return nil, 0, err
	}
	newest, err := tx.LastSeq()
	return tasks, max(seq, newest), err
}

// readDependees reads what the tasks depend on, unless it is known and has not changed.
func (q *Queue) readDependees(tx fleet.ReadTx, tasks []*fleet.QueuedTask, changed map[string]bool, deps map[string]fleet.Dependee) error {
	waiting := map[string]*fleet.Task{} // most dependees wait too, and are not read one by one
	for _, t := range tasks {
		waiting[t.ID] = &t.Task
	}
	read := func(id string) (err error) {
		t := waiting[id]
		if t == nil {
			if t, err = tx.Task(id); err != nil {
				return err
			}
		}
		if t == nil {
			deps[id] = fleet.Dependee{}
			return nil
		}
		deps[id] = fleet.Dependee{Status: t.Status, Name: t.Ref(), AgentUID: t.AgentUID}
		return nil
	}
	for id := range changed {
		if _, known := q.dependees[id]; known {
			if err := read(id); err != nil {
				return err
			}
		}
	}
	for _, t := range tasks {
		for _, id := range t.Entry.DependeeIDs() {
			_, known := q.dependees[id]
			if _, is := deps[id]; !known && !is {
				if err := read(id); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// Tasks returns the tasks, in the order in which they were queued. Callers do not change them.
func (q *Queue) Tasks() []*fleet.QueuedTask {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.tasks
}

// Pending returns how many pending tasks the principal has queued.
func (q *Queue) Pending(by string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.pendingBy[by]
}

// Revision returns a number that is greater after each refresh that has found something because of which a task could start. Output of
// agents, for example, does not change it.
func (q *Queue) Revision() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.revision
}

// Pools returns the pools, sorted by name. Callers do not change them.
func (q *Queue) Pools() []*fleet.Pool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.pools
}

// Pause returns nil if the fleet is not paused.
func (q *Queue) Pause() *fleet.Pause {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.paused
}

// Schedules returns the schedules. Callers do not change them.
func (q *Queue) Schedules() []*fleet.Schedule {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.schedules
}

// Credentials returns what is known of the credentials, by name. Callers do not change it.
func (q *Queue) Credentials() map[string]*fleet.Credential {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.credentials
}

// Dependee returns a task that tasks of the queue depend on.
func (q *Queue) Dependee(id string) fleet.Dependee {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dependees[id]
}
