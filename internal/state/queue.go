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

// Queue has the tasks of the queue that have not ended, the tasks that these depend on, the pools, the schedules, the
// credentials, and whether the fleet is paused. It is in memory, so that deciding what starts next does not read thousands of
// rows.
type Queue struct {
	store fleet.Store

	refreshMu sync.Mutex // held during a refresh

	mu          sync.Mutex
	loaded      bool
	seq         int64                     // events up to it are included
	revision    int64                     // see Revision
	tasks       []*fleet.QueuedTask       // in the order in which they were queued; replaced or appended to, never changed
	taskIDs     map[string]bool           // the ids of the tasks in the field tasks
	pendingBy   map[string]int            // the number of pending tasks, by the principal who has queued them
	dependees   map[string]fleet.Dependee // by id
	endedAgents map[string]bool           // see TakeAgentsWithEndedTasks
	queueResources
}

// queueEvents are the events that may change a task of the queue, or what the task waits for.
var queueEvents = []fleet.EventType{
	fleet.EventTaskCreated, fleet.EventTaskQueued, fleet.EventTaskAssigned, fleet.EventTaskEnded, fleet.EventTaskDeleted, fleet.EventTaskLabelled, fleet.EventTaskDelegated,
	fleet.EventPoolChanged, fleet.EventFleetChanged, fleet.EventScheduleChanged, fleet.EventAgentCreated, fleet.EventAgentChanged, fleet.EventAgentDeleted,
}

// queueBatch is how many events a refresh reads at a time.
const queueBatch = 1000

// Refresh reads what has changed since the last call.
func (q *Queue) Refresh(ctx context.Context) error {
	q.refreshMu.Lock()
	defer q.refreshMu.Unlock()
	last, err := q.store.LastSeq(ctx)
	if err != nil {
		return err
	}
	q.mu.Lock()
	isCurrent := q.loaded && q.seq == last
	q.mu.Unlock()
	if isCurrent {
		return nil
	}
	var c *queueChanges
	err = q.store.View(ctx, func(tx fleet.ReadTx) (err error) {
		c, err = q.readChanges(tx)
		return err
	})
	if err != nil {
		return err
	}
	q.apply(c)
	return nil
}

// queueChanges is what a refresh has read.
type queueChanges struct {
	seq       int64
	first     bool                // it is the first refresh, which reads everything
	changed   map[string]bool     // the ids of tasks with events; "" stands for events about pools, agents and the fleet, which name no task
	ended     map[string]bool     // the uids of the agents whose tasks have ended
	tasks     []*fleet.QueuedTask // the changed ones that have not ended
	resources *queueResources     // nil if they were not read
	dependees map[string]fleet.Dependee
}

// queueResources are the resources that decide which tasks start.
type queueResources struct {
	pools       []*fleet.Pool
	pause       *fleet.Pause // nil if the fleet is not paused
	schedules   []*fleet.Schedule
	credentials map[string]*fleet.Credential // by name
}

// readChanges reads what has changed since the last refresh. Only Refresh changes the fields that readChanges uses, and only
// one Refresh runs at a time.
func (q *Queue) readChanges(tx fleet.ReadTx) (_ *queueChanges, err error) {
	c := &queueChanges{seq: q.seq, first: !q.loaded, changed: map[string]bool{}, ended: map[string]bool{}, dependees: map[string]fleet.Dependee{}}
	if c.first {
		if c.seq, err = tx.LastSeq(); err != nil {
			return nil, err
		}
		c.tasks, err = tx.Queue(fleet.QueueFilter{All: true})
	} else {
		err = c.readTasks(tx)
	}
	if err != nil {
		return nil, err
	}
	if c.first || c.changed[""] {
		if c.resources, err = readQueueResources(tx); err != nil {
			return nil, err
		}
	}
	return c, q.readDependees(tx, c)
}

// readTasks reads the events after c.seq and the tasks that they name, and advances c.seq.
func (c *queueChanges) readTasks(tx fleet.ReadTx) error {
	for {
		events, err := tx.Events(fleet.EventFilter{Types: queueEvents}, fleet.EventWindow{After: c.seq, Limit: queueBatch})
		if err != nil {
			return err
		}
		for _, e := range events {
			c.changed[e.TaskID] = true
			if e.Type == fleet.EventTaskEnded {
				c.ended[e.AgentUID] = true
			}
			c.seq = e.Seq
		}
		if len(events) < queueBatch {
			break
		}
	}
	var err error
	if c.tasks, err = tx.Queue(fleet.QueueFilter{TaskIDs: slices.Collect(maps.Keys(c.changed))}); err != nil {
		return err
	}
	newest, err := tx.LastSeq()
	c.seq = max(c.seq, newest)
	return err
}

func readQueueResources(tx fleet.ReadTx) (_ *queueResources, err error) {
	r := &queueResources{credentials: map[string]*fleet.Credential{}}
	if r.pools, err = fleet.ReadResources[fleet.Pool](tx, fleet.ResourceFilter{Kind: fleet.PoolKind}); err != nil {
		return nil, err
	}
	if r.pause, err = fleet.ReadPause(tx); err != nil {
		return nil, err
	}
	if r.schedules, err = fleet.ReadResources[fleet.Schedule](tx, fleet.ResourceFilter{Kind: fleet.ScheduleKind}); err != nil {
		return nil, err
	}
	credentials, err := fleet.ReadResources[fleet.Credential](tx, fleet.ResourceFilter{Kind: fleet.CredentialKind})
	for _, c := range credentials {
		r.credentials[c.Name] = c
	}
	return r, err
}

// apply adds the changes to the queue.
func (q *Queue) apply(c *queueChanges) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c.first {
		q.dependees = map[string]fleet.Dependee{}
	}
	if c.first || len(c.changed) > 0 {
		q.revision++
		q.merge(c.tasks, c.changed)
	}
	q.addEndedAgents(c.ended)
	maps.Copy(q.dependees, c.dependees)
	if len(q.dependees) > maxDependees {
		q.forgetDependees()
	}
	if c.resources != nil {
		q.queueResources = *c.resources
	}
	q.loaded, q.seq = true, c.seq
}

// merge replaces the tasks whose ids are in changed. current has those of them that have not ended. The caller holds the lock.
func (q *Queue) merge(current []*fleet.QueuedTask, changed map[string]bool) {
	slices.SortFunc(current, byQueueTime)
	onlyNew := len(current) == 0 || len(q.tasks) == 0 || byQueueTime(q.tasks[len(q.tasks)-1], current[0]) < 0
	for id := range changed {
		onlyNew = onlyNew && !q.taskIDs[id]
	}
	if onlyNew && q.taskIDs != nil { // for example, when thousands of tasks are queued one after the other
		q.tasks = append(q.tasks, current...)
		q.addToIndexes(current)
		return
	}
	all := make([]*fleet.QueuedTask, 0, len(q.tasks)+len(current))
	for _, t := range q.tasks {
		if !changed[t.ID] {
			all = append(all, t)
		}
	}
	all = append(all, current...)
	slices.SortFunc(all, byQueueTime)
	q.tasks, q.taskIDs, q.pendingBy = all, map[string]bool{}, map[string]int{}
	q.addToIndexes(all)
}

// addToIndexes adds the tasks to taskIDs and pendingBy.
func (q *Queue) addToIndexes(tasks []*fleet.QueuedTask) {
	for _, t := range tasks {
		q.taskIDs[t.ID] = true
		if t.Status == fleet.TaskPending {
			q.pendingBy[t.Entry.By]++
		}
	}
}

// byQueueTime compares tasks by when they were queued.
func byQueueTime(a, b *fleet.QueuedTask) int {
	return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), strings.Compare(a.ID, b.ID))
}

// maxDependees is the maximum number of dependees in memory before forgetDependees looks for those that are no longer needed.
const maxDependees = 20_000

// forgetDependees removes dependees that no task of the queue depends on. The caller holds the lock.
func (q *Queue) forgetDependees() {
	needed := map[string]fleet.Dependee{}
	for _, t := range q.tasks {
		for _, id := range t.Entry.DependeeIDs() {
			needed[id] = q.dependees[id]
		}
	}
	q.dependees = needed
}

// readDependees reads the known dependees that have changed, and the unknown dependees of the tasks that the refresh has read.
func (q *Queue) readDependees(tx fleet.ReadTx, c *queueChanges) error {
	waiting := map[string]*fleet.Task{} // most dependees wait too, and are not read one by one
	for _, t := range c.tasks {
		waiting[t.ID] = &t.Task
	}
	readDependee := func(id string) (err error) {
		t := waiting[id]
		if t == nil {
			if t, err = tx.Task(id); err != nil {
				return err
			}
		}
		if t == nil {
			c.dependees[id] = fleet.Dependee{}
			return nil
		}
		c.dependees[id] = fleet.Dependee{Status: t.Status, Name: t.Ref(), AgentUID: t.AgentUID}
		return nil
	}
	for id := range c.changed {
		if _, known := q.dependees[id]; known {
			if err := readDependee(id); err != nil {
				return err
			}
		}
	}
	for _, t := range c.tasks {
		for _, id := range t.Entry.DependeeIDs() {
			_, known := q.dependees[id]
			if _, isRead := c.dependees[id]; !known && !isRead {
				if err := readDependee(id); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// Tasks returns the tasks, in the order in which they were queued. Callers must not change them.
func (q *Queue) Tasks() []*fleet.QueuedTask {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.tasks
}

// Pending returns how many pending tasks the principal with the name has queued.
func (q *Queue) Pending(by string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.pendingBy[by]
}

// Revision returns a number that increases with each refresh that finds a change that may let a task start. Output of agents,
// for example, does not increase it.
func (q *Queue) Revision() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.revision
}

// Pools returns the pools, sorted by name. Callers must not change them.
func (q *Queue) Pools() []*fleet.Pool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.pools
}

// Pause returns the pause of the fleet; nil if the fleet is not paused.
func (q *Queue) Pause() *fleet.Pause {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.pause
}

// Schedules returns the schedules. Callers must not change them.
func (q *Queue) Schedules() []*fleet.Schedule {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.schedules
}

// Credentials returns the stored states of the credentials, by name. Callers must not change them.
func (q *Queue) Credentials() map[string]*fleet.Credential {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.credentials
}

// Dependee returns the state of a task that a task of the queue depends on; the zero value if it does not exist.
func (q *Queue) Dependee(id string) fleet.Dependee {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dependees[id]
}

// maxEndedAgents is the maximum number of agents that TakeAgentsWithEndedTasks names.
const maxEndedAgents = 1000

// addEndedAgents adds the agents to endedAgents. TakeAgentsWithEndedTasks returns them. The caller holds the lock.
func (q *Queue) addEndedAgents(uids map[string]bool) {
	if q.endedAgents == nil {
		q.endedAgents = map[string]bool{}
	}
	if len(q.endedAgents) <= maxEndedAgents {
		maps.Copy(q.endedAgents, uids)
	}
}

// TakeAgentsWithEndedTasks returns the uids of the agents whose tasks have ended since the last call. all means that they are too
// many to name, so that the caller must examine all agents.
func (q *Queue) TakeAgentsWithEndedTasks() (uids []string, all bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	uids = slices.Collect(maps.Keys(q.endedAgents))
	clear(q.endedAgents)
	if len(uids) > maxEndedAgents {
		return nil, true
	}
	return uids, false
}
