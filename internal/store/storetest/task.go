package storetest

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

var taskCases = []testCase{
	{"every field comes back", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		bare := newTask("t1", a)
		bare.Status, bare.CreatedAt = fleet.TaskFailed, time.Time{}
		full := fullTask("t2", a)
		for _, task := range []*fleet.Task{bare, full} {
			want := *task
			insertRows(t, s, task)
			require.Equal(t, int64(1), task.Revision)
			want.Revision = 1
			require.Equal(t, &want, getTask(t, s, task.ID))
		}
	}},

	{"the queue has its tasks that have not ended, in the order of insertion", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		entry := func(n int) *fleet.QueueEntry {
			return &fleet.QueueEntry{
				Priority: n, NotBefore: noon, Expires: noon.Add(time.Hour), HeldBy: "alice", ExclusiveKey: "deploy", By: "alice", Kind: fleet.KindHuman, Scope: fleet.ScopeRun,
				Dependencies: []fleet.Dependency{{TaskID: "t0", AnyEnd: true, Result: true}},
			}
		}
		for i := range 3 {
			task := newTask(id("t", i), a)
			task.Status, task.Description = fleet.TaskPending, strings.Repeat("long ", 2000)
			update(t, s, func(tx fleet.Tx) error { return errors.Join(tx.Insert(task), tx.Put(task.ID, entry(i))) })
		}
		insertRows(t, s, newTask("started", a))
		queue := func(f fleet.QueueFilter) (ids []string) {
			for _, q := range read(t, s, func(tx fleet.ReadTx) ([]*fleet.QueuedTask, error) { return tx.Queue(f) }) {
				require.Equal(t, *getTask(t, s, q.ID), q.Task)
				ids = append(ids, q.ID+":"+strconv.Itoa(q.Entry.Priority))
			}
			return ids
		}
		got := read(t, s, func(tx fleet.ReadTx) ([]*fleet.QueuedTask, error) {
			return tx.Queue(fleet.QueueFilter{TaskIDs: []string{id("t", 1)}})
		})
		require.Equal(t, *entry(1), got[0].Entry)
		require.Equal(t, []string{id("t", 0) + ":0", id("t", 1) + ":1", id("t", 2) + ":2"}, queue(fleet.QueueFilter{All: true}))
		update(t, s, func(tx fleet.Tx) error {
			task, err := tx.Task(id("t", 0))
			require.NoError(t, err)
			task.Status = fleet.TaskStopped
			return errors.Join(tx.Update(task), tx.Put(id("t", 2), entry(7)))
		})
		require.Equal(t, []string{id("t", 1) + ":1", id("t", 2) + ":7"}, queue(fleet.QueueFilter{All: true}))
		require.Equal(t, []string{id("t", 2) + ":7"}, queue(fleet.QueueFilter{TaskIDs: []string{id("t", 0), id("t", 2), "none"}}))
		require.Equal(t, []string{id("t", 0) + ":0", id("t", 2) + ":7"}, queue(fleet.QueueFilter{TaskIDs: []string{id("t", 0), id("t", 2), "none"}, IncludeEnded: true}))
		require.Empty(t, queue(fleet.QueueFilter{}))
		update(t, s, func(tx fleet.Tx) error { return tx.Delete(&fleet.Task{ID: id("t", 0)}) })
	}},

	{"a queued task gets its agent when it starts", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		task := newTask("t1", &fleet.Agent{Owner: "alice"})
		task.Status, task.Project = fleet.TaskPending, a.Project
		update(t, s, func(tx fleet.Tx) error {
			return errors.Join(tx.Insert(task), tx.Put("t1", &fleet.QueueEntry{By: "alice"}))
		})
		found := func() []*fleet.Task {
			return read(t, s, func(tx fleet.ReadTx) ([]*fleet.Task, error) {
				f, err := tx.FindTasks(fleet.TaskFilter{AgentName: a.Name, Project: a.Project, Toolset: &a.Toolset}, fleet.TaskWindow{Limit: 10})
				return f.Tasks, err
			})
		}
		require.Empty(t, getTask(t, s, "t1").AgentUID)
		require.Empty(t, found())
		update(t, s, func(tx fleet.Tx) error {
			q, err := fleet.First(tx.Queue(fleet.QueueFilter{TaskIDs: []string{"t1"}}))
			require.NoError(t, err)
			q.AgentUID, q.AgentName, q.Status = a.UID, a.Name, fleet.TaskRunning
			return tx.Update(&q.Task)
		})
		require.Equal(t, a.UID, getTask(t, s, "t1").AgentUID)
		require.Len(t, found(), 1)
		require.Equal(t, "t1", read(t, s, func(tx fleet.ReadTx) (*fleet.Task, error) { return tx.RunningTask(a.UID) }).ID)
	}},

	{"many agents get tasks concurrently", func(t *testing.T, s fleet.Store) {
		require.Empty(t, runConcurrently(50, func(i int) error {
			return s.Update(t.Context(), func(tx fleet.Tx) error {
				a := newAgent(id("u", i), id("a", i), "alice")
				return errors.Join(tx.Insert(a), tx.Insert(newTask(id("t", i), a)))
			})
		}))
	}},

	{"an id is used once, and the agent must exist", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		done := fullTask("t1", a)
		insertRows(t, s, done)
		requireInternal(t, tryInsert(t, s, newTask("t1", a)))
		requireInternal(t, s.Update(t.Context(), func(tx fleet.Tx) error {
			return tx.Insert(newTask("t2", newAgent("nobody", "nobody", "alice")))
		}))
	}},

	{"an update writes every field and raises the revision", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		task := newTask("t1", a)
		insertRows(t, s, task)
		full := fullTask("t1", a)
		full.Status, full.EndedAt = fleet.TaskRunning, time.Time{}
		updateRows(t, s, full)
		require.Equal(t, int64(2), full.Revision)
		require.Equal(t, full, getTask(t, s, "t1"))
		bare := newTask("t1", a)
		updateRows(t, s, bare)
		require.Equal(t, int64(3), bare.Revision)
		require.Equal(t, bare, getTask(t, s, "t1"))
	}},

	{"an update of an unknown task fails", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		requireInternal(t, tryUpdate(t, s, newTask("t1", a)))
		require.Nil(t, getTask(t, s, "t1"))
	}},

	{"an ended task never changes", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		for _, status := range []fleet.TaskStatus{fleet.TaskCompleted, fleet.TaskFailed, fleet.TaskStopped} {
			task := newTask("t-"+string(status), a)
			insertRows(t, s, task)
			task.Status, task.EndedAt, task.Reason = status, noon, "so it ended"
			updateRows(t, s, task)
			for _, newStatus := range []fleet.TaskStatus{fleet.TaskPending, fleet.TaskRunning, fleet.TaskCompleted, fleet.TaskFailed, fleet.TaskStopped} {
				other := *task
				other.Status, other.Summary, other.Description = newStatus, "no, it did not", strings.Repeat("x", 10_000)
				requireInternal(t, tryUpdate(t, s, &other))
			}
			require.Equal(t, task, getTask(t, s, task.ID))
		}
	}},

	{"a task says whether it has messages, questions and checks", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		task := newTask("t1", a)
		insertRows(t, s, task)
		flags := func() []bool {
			current := getTask(t, s, "t1")
			active := read(t, s, func(tx fleet.ReadTx) (*fleet.Task, error) { return tx.RunningTask(a.UID) })
			require.Equal(t, current.Status.Ended(), active == nil)
			if active != nil {
				require.Equal(t, current, active)
			}
			return []bool{current.HasMessages, current.HasQuestions, current.HasChecks}
		}
		require.Equal(t, []bool{false, false, false}, flags())
		for _, id := range []string{"m1", "m2"} {
			insertRows(t, s, &fleet.Message{ID: id, TaskID: "t1", CreatedAt: noon})
			require.Equal(t, []bool{true, false, false}, flags())
		}
		insertRows(t, s, newQuestion("q1", "t1", a))
		updateRows(t, s, task) // task is older than the messages and questions
		require.Equal(t, []bool{true, true, false}, flags())
		task.Status = fleet.TaskCompleted
		updateRows(t, s, task)
		update(t, s, func(tx fleet.Tx) error { return tx.Put("t1", &fleet.TaskChecks{Try: 1}) }) // checks can be stored after the end of the task
		require.Equal(t, []bool{true, true, true}, flags())
	}},

	{"tasks are listed newest first, in pages", func(t *testing.T, s fleet.Store) {
		a, other := addAgent(t, s), newAgent("u2", "sony", "alice")
		update(t, s, func(tx fleet.Tx) error {
			require.NoError(t, tx.Insert(other))
			for i := range 25 {
				task := fullTask(id("t", i), a)
				task.CreatedAt = noon.Add(time.Duration(i/2) * time.Second) // two tasks have the same time; the one that was added later is newer
				require.NoError(t, tx.Insert(task))
			}
			return tx.Insert(newTask("theirs", other))
		})
		var ids []string
		for i := 24; i >= 0; i-- {
			ids = append(ids, id("t", i))
		}
		for _, c := range []struct {
			limit, offset int
			want          []string
		}{
			{100, 0, ids},
			{10, 0, ids[:10]},
			{10, 10, ids[10:20]},
			{10, 20, ids[20:]},
			{10, 25, nil},
			{10, 1_000_000, nil},
			{0, 0, nil},
		} {
			tasks, total := listTasks(t, s, a.UID, c.limit, c.offset)
			require.Equal(t, 25, total)
			require.Equal(t, c.want, taskIDs(tasks), "%+v", c)
		}
	}},

	{"a long description is complete, and shortened in lists", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		task := newTask("t1", a)
		insertRows(t, s, task)
		for _, description := range []string{
			strings.Repeat("x", 4096), strings.Repeat("x", 4097), strings.Repeat("x", 4094) + "🚀🚀", strings.Repeat("名", 100_000),
			strings.Repeat("0123456789", 1<<20), "short again",
		} {
			task.Description = description
			updateRows(t, s, task)
			require.True(t, getTask(t, s, "t1").Description == description, "a description of %d bytes", len(description))
			tasks, _ := listTasks(t, s, a.UID, 1, 0)
			got := tasks[0].Description
			require.True(t, strings.HasPrefix(description, got) && utf8.ValidString(got))
			require.LessOrEqual(t, len(got), 4096)
			require.GreaterOrEqual(t, len(got), min(4093, len(description)))
		}
		whole := newTask("t2", a)
		whole.Status, whole.Description = fleet.TaskCompleted, strings.Repeat("名", 10_000)
		insertRows(t, s, whole)
		require.Equal(t, whole, getTask(t, s, "t2"))
	}},

	{"only known sources and statuses can be stored", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		insert := func(id string, source fleet.Source, status fleet.TaskStatus) error {
			task := newTask(id, a)
			task.Source, task.Status = source, status
			return tryInsert(t, s, task)
		}
		for _, source := range []fleet.Source{fleet.SourceAgent, fleet.SourceHuman, fleet.SourceAIController} {
			require.NoError(t, insert("t-"+string(source), source, fleet.TaskCompleted))
		}
		requireInternal(t, insert("t1", "dog", fleet.TaskCompleted))
		requireInternal(t, insert("t1", fleet.SourceHuman, "asleep"))
	}},

	{"the last task of each agent", func(t *testing.T, s fleet.Store) {
		a, b := addAgent(t, s), newAgent("u2", "b", "alice")
		insertRows(t, s, b)
		insertRows(t, s, fullTask("t1", a), fullTask("t2", a), fullTask("t3", b))
		last := func(uids ...string) []string {
			return taskIDs(read(t, s, func(tx fleet.ReadTx) ([]*fleet.Task, error) { return tx.LastTasks(uids) }))
		}
		require.ElementsMatch(t, []string{"t2", "t3"}, last(a.UID, "u2", "nobody"))
		require.Equal(t, []string{"t3"}, last("u2", "u2"))
		require.Empty(t, last())
	}},

	{"the dispatched tasks of an agent", func(t *testing.T, s fleet.Store) {
		a, b := addAgent(t, s), newAgent("u2", "b", "alice")
		insertRows(t, s, b)
		add := func(id string, agent *fleet.Agent, status fleet.TaskStatus, dispatched time.Duration, try int) {
			task := newTask(id, agent)
			task.Status, task.Try = status, try
			if dispatched > 0 {
				task.DispatchedAt = noon.Add(dispatched)
			}
			insertRows(t, s, task)
		}
		dispatched := func(uid string, limit int) []string {
			return taskIDs(read(t, s, func(tx fleet.ReadTx) ([]*fleet.Task, error) { return tx.DispatchedTasks(uid, limit) }))
		}
		require.Empty(t, dispatched(a.UID, 9))
		add("t1", a, fleet.TaskCompleted, 3*time.Second, 0)
		add("t2", a, fleet.TaskCompleted, 4*time.Second, 0)
		add("t3", a, fleet.TaskFailed, 2*time.Second, 0)
		add("t4", a, fleet.TaskStopped, 0, 0) // it ended before it was dispatched
		add("t5", a, fleet.TaskPending, 0, 0)
		add("t6", b, fleet.TaskCompleted, 9*time.Second, 0)
		require.Equal(t, []string{"t2", "t1", "t3"}, dispatched(a.UID, 9))
		add("t7", a, fleet.TaskRunning, time.Second, 0) // the clock of its server is behind
		add("t8", a, fleet.TaskPending, 0, 1)           // created at noon, and tried once
		require.Equal(t, []string{"t7", "t2", "t1", "t3", "t8"}, dispatched(a.UID, 9))
		require.Equal(t, []string{"t7", "t2"}, dispatched(a.UID, 2))
		require.Empty(t, dispatched(a.UID, 0))
	}},

	{"a deleted task leaves nothing behind", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		before := holdings(t, s, a.Owner)
		task := newTask("t1", a)
		task.Description = strings.Repeat("a long description ", 1000)
		e := newEvent(fleet.EventTaskOutput, a, "output")
		e.TaskID = task.ID
		update(t, s, func(tx fleet.Tx) error {
			require.NoError(t, tx.Insert(task))
			require.NoError(t, tx.Put(task.ID, fleet.Payload("payload")))
			require.NoError(t, tx.Put(task.ID, &fleet.Changes{Base: "b"}))
			require.NoError(t, tx.Put(task.ID, &fleet.TaskChecks{Try: 1}))
			require.NoError(t, tx.Insert(&fleet.Message{ID: "m1", TaskID: task.ID, Text: "hello", CreatedAt: noon}))
			require.NoError(t, tx.Insert(newQuestion("t1-1", task.ID, a)))
			return tx.Append(e)
		})
		remove := func() error {
			return s.Update(t.Context(), func(tx fleet.Tx) error { return tx.Delete(&fleet.Task{ID: task.ID}) })
		}
		requireInternal(t, remove())
		require.NotNil(t, getTask(t, s, task.ID), "an active task must stay")
		task.Status, task.EndedAt = fleet.TaskCompleted, noon
		updateRows(t, s, task)
		require.NoError(t, remove())
		require.Nil(t, getTask(t, s, task.ID))
		require.Nil(t, getPayload(t, s, task.ID))
		require.Nil(t, getChanges(t, s, task.ID))
		require.Nil(t, getChecks(t, s, task.ID))
		require.Empty(t, listEvents(t, s, fleet.EventFilter{TaskID: task.ID}, 0, 10))
		require.Nil(t, getMessage(t, s, "m1"))
		require.Nil(t, getQuestion(t, s, "t1-1"))
		found, total := findTasks(t, s, fleet.TaskFilter{Text: "long description"}, 10, 0)
		require.Empty(t, found)
		require.Zero(t, total)
		require.Equal(t, before, holdings(t, s, a.Owner))
		requireInternal(t, remove())
	}},

	{"the checks of a task, also after its end", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		task := newTask("t1", a)
		insertRows(t, s, task)
		require.Nil(t, getChecks(t, s, task.ID))
		put := func(c *fleet.TaskChecks) {
			update(t, s, func(tx fleet.Tx) error { return tx.Put(task.ID, c) })
			require.Equal(t, c, getChecks(t, s, task.ID))
		}
		put(&fleet.TaskChecks{Requested: fleet.Checks{Commands: []string{"go test ./..."}, Timeout: time.Minute, Retries: new(0)}})
		task.Status, task.EndedAt, task.ReasonCode, task.RetryAt = fleet.TaskFailed, noon, fleet.CodeUsageWindow, noon.Add(time.Hour)
		updateRows(t, s, task)
		require.Equal(t, fleet.CodeUsageWindow, getTask(t, s, task.ID).ReasonCode)
		require.Equal(t, noon.Add(time.Hour), getTask(t, s, task.ID).RetryAt)
		put(&fleet.TaskChecks{Try: 2, Retries: 1, Results: []fleet.CheckResult{
			{Command: "a", Status: fleet.CheckFailed, ExitCode: new(3), Output: "no\n", Truncated: true, StartedAt: noon, EndedAt: noon.Add(time.Second)},
			{Command: "b", Status: fleet.CheckTimedOut, Reason: "it ran longer than 1m0s", StartedAt: noon, EndedAt: noon},
		}})
	}},

	{"only a failed task can have a reason code", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		task := newTask("t1", a)
		task.ReasonCode = fleet.CodeChecksFailed
		requireInternal(t, tryInsert(t, s, task))
	}},

	{"the changes of a task, also after its end", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		task := newTask("t1", a)
		insertRows(t, s, task)
		require.Nil(t, getChanges(t, s, task.ID))
		put := func(c *fleet.Changes) {
			update(t, s, func(tx fleet.Tx) error { return tx.Put(task.ID, c) })
			require.Equal(t, c, getChanges(t, s, task.ID))
		}
		put(&fleet.Changes{Problem: "the tree is gone", At: noon})
		task.Status, task.EndedAt = fleet.TaskCompleted, noon
		updateRows(t, s, task)
		put(&fleet.Changes{
			Base: "b", Commit: "c", Ref: "r", Branch: "main", Commits: 1, Dirty: true, Pushed: true, FileCount: 2, Insertions: 3, Deletions: 4, At: noon,
			FileChanges: []fleet.FileChange{
				{Path: "new", From: "old", Kind: fleet.FileRenamed, Insertions: 3, Deletions: 4}, {Path: "bin", Kind: fleet.FileAdded, Binary: true},
			},
			LeftOut: []string{"large"},
		})
	}},
}

// fullTask returns a completed task with a value in almost every field.
func fullTask(id string, a *fleet.Agent) *fleet.Task {
	return &fleet.Task{
		ID: id, AgentUID: a.UID, AgentName: a.Name, Owner: a.Owner, Trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", Description: "bäue\n'es' \"", Source: fleet.SourceAIController,
		Status: fleet.TaskCompleted, Reason: "why", Timeout: 90*time.Minute + 7*time.Nanosecond, CreatedAt: noon,
		StartedAt: noon.Add(1 * time.Second), EndedAt: noon.Add(2 * time.Second), DispatchedAt: noon.Add(3 * time.Second),
		Cursor: "offset:17", OutputSize: 1 << 40, StopRequestedAt: noon.Add(4 * time.Second), StopReason: "alice asked",
		Summary: "it is done ✅", PayloadSize: 99, ExitCode: new(0), CostUSD: 0.1 + 0.2, Turns: 12, SessionID: "s1",
		Options: fleet.TaskOptions{Model: "m-2", Effort: "high", MaxTurns: new(7), MaxCostUSD: new(0.25), AppendSystemPrompt: "bäue \"this\"", OutputSchema: []byte(`{"type":"object"}`)}, RetryOf: "t0", ParentID: "t-parent", RootID: "t-root", Output: []byte(`{"ok": "ja \u0000"}`),
		SelfStarted: true, Reported: true, Terminal: true, Try: 3, ConversationLost: "its files are gone", StalledAt: noon.Add(5 * time.Second), LastStep: "Bash: go test", OpenQuestions: 2, PayloadGap: fleet.Gap{Offset: 33, Size: 1 << 40},
		Delegation: fleet.Delegation{
			Depth: 2, Detached: true, Wake: fleet.WakeEach, Limit: 1_000_000, ReservedTry: 1, TakenTry: 2, MaxRunning: 4, Grant: (&fleet.Grant{Roles: []string{"coder"}, MaxCostUSD: 0.5}).WithDefaults("webshop"),
			Children: 3, AwaitedChildren: 2, GivenToChildren: 2_000_000, Waits: true, Ready: true, Conversation: "t8", WokenTry: 2, Total: 9, RecentStarts: []time.Time{noon},
		},
		Usage: fleet.Usage{Model: "m-1", InputTokens: 1 << 40, OutputTokens: 7, ToolCalls: 3},
		Spending: fleet.Spending{
			Models: []fleet.ModelUsage{{RequestUsage: fleet.RequestUsage{Model: "m-1", Input: 1, CacheRead: 1 << 40, Output: 7, CostUSD: 0.1}, Requests: 2}},
			Basis:  fleet.CostPriced, ContextTokens: 9, ContextWindow: 200_000, DeniedCalls: 1, Run: fleet.RunSpending{CostUSD: 0.1, Input: 1, Output: 7, Turns: 2},
		},
	}
}

func getTask(t tb, s fleet.Store, id string) *fleet.Task {
	t.Helper()
	return read(t, s, func(tx fleet.ReadTx) (*fleet.Task, error) { return tx.Task(id) })
}

func listTasks(t tb, s fleet.Store, uid string, limit, offset int) (tasks []*fleet.Task, total int) {
	t.Helper()
	view(t, s, func(tx fleet.ReadTx) (err error) {
		tasks, total, err = tx.Tasks(uid, limit, offset)
		return err
	})
	return tasks, total
}

func taskIDs(tasks []*fleet.Task) []string {
	var out []string
	for _, t := range tasks {
		out = append(out, t.ID)
	}
	return out
}

func getChecks(t *testing.T, s fleet.Store, taskID string) *fleet.TaskChecks {
	t.Helper()
	return read(t, s, func(tx fleet.ReadTx) (*fleet.TaskChecks, error) { return tx.Checks(taskID) })
}

func getChanges(t *testing.T, s fleet.Store, taskID string) *fleet.Changes {
	t.Helper()
	return read(t, s, func(tx fleet.ReadTx) (*fleet.Changes, error) { return tx.Changes(taskID) })
}
