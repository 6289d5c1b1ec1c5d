package storetest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

var findTasksCases = []testCase{
	{"tasks of all agents, by filter", func(t *testing.T, s fleet.Store) {
		toolset := fleet.ToolsetFleet
		lifecycle := fleet.ToolsetLifecycle
		add := func(uid, name, owner, project string, ts fleet.Toolset, tasks ...*fleet.Task) {
			a := newAgent(uid, name, owner)
			a.Project, a.Toolset = project, ts
			insertRows(t, s, a)
			for _, task := range tasks {
				task.AgentUID, task.AgentName, task.Owner = a.UID, a.Name, a.Owner
				insertRows(t, s, task)
			}
			if strings.HasPrefix(uid, "gone") {
				a.State, a.DeletedAt = fleet.StateDeleted, noon
				updateRows(t, s, a)
			}
		}
		task := func(id string, after time.Duration, status fleet.TaskStatus, source fleet.Source, description, summary string) *fleet.Task {
			return &fleet.Task{ID: id, Status: status, Source: source, Description: description, Summary: summary, CreatedAt: noon.Add(after)}
		}
		add("gone", "papi", "alice", "Setup", toolset, task("t1", time.Second, fleet.TaskFailed, fleet.SourceHuman, "Fix the LOGIN page", "no 100% luck"))
		add("u2", "Papi", "alice", "DataOne", toolset,
			task("t2", 2*time.Second, fleet.TaskCompleted, fleet.SourceAIController, "write docs", "Done"),
			task("t3", 3*time.Second, fleet.TaskRunning, fleet.SourceHuman, "äpfel \"quoted\" * und login", ""))
		update(t, s, func(tx fleet.Tx) error { // an ended task such as t1 can get labels, too
			return errors.Join(tx.Put("t1", fleet.Labels{"env": "prod", "old": ""}), tx.Put("t3", fleet.Labels{"env": "test"}), tx.Put("t2", fleet.Labels{"env": "x"}),
				tx.Put("t2", fleet.Labels{}), tx.Put("t1", fleet.Labels{"env": "prod", "old": ""}))
		})
		require.Equal(t, fleet.Labels{"env": "prod", "old": ""}, getTask(t, s, "t1").Labels)
		require.Nil(t, getTask(t, s, "t2").Labels)
		selector := func(text string) fleet.Selector {
			s, err := fleet.ParseSelector("selector", text)
			require.NoError(t, err)
			return s
		}
		add("u3", "sony", "bob", "Setup", toolset, task("t4", 4*time.Second, fleet.TaskCompleted, fleet.SourceHuman, "bob's login", "x"))
		add("u4", "c-1", "alice", "", lifecycle, task("t5", 5*time.Second, fleet.TaskStopped, fleet.SourceAgent, "a contract", ""))
		for _, c := range []struct {
			filter fleet.TaskFilter
			want   []string
		}{
			{fleet.TaskFilter{}, []string{"t5", "t4", "t3", "t2", "t1"}},
			{fleet.TaskFilter{Owner: "alice"}, []string{"t5", "t3", "t2", "t1"}},
			{fleet.TaskFilter{Owner: "nobody"}, nil},
			{fleet.TaskFilter{Owner: "bob", SharedUIDs: []string{"u2", "u9"}}, []string{"t4", "t3", "t2"}},
			{fleet.TaskFilter{Owner: "bob", SharedUIDs: []string{"u2"}, Text: "login"}, []string{"t4", "t3"}},
			{fleet.TaskFilter{AgentUID: "u2"}, []string{"t3", "t2"}},
			{fleet.TaskFilter{AgentUID: "u2", Owner: "bob"}, nil},
			{fleet.TaskFilter{AgentName: "PAPI"}, []string{"t3", "t2", "t1"}},
			{fleet.TaskFilter{Toolset: &toolset}, []string{"t4", "t3", "t2", "t1"}},
			{fleet.TaskFilter{Toolset: &lifecycle}, []string{"t5"}},
			{fleet.TaskFilter{Project: "Setup"}, []string{"t4", "t1"}},
			{fleet.TaskFilter{Project: "Setup", Place: "local"}, []string{"t4", "t1"}},
			{fleet.TaskFilter{Place: "coder"}, nil},
			{fleet.TaskFilter{Project: "Setup", Owner: "alice"}, []string{"t1"}},
			{fleet.TaskFilter{Status: fleet.TaskCompleted}, []string{"t4", "t2"}},
			{fleet.TaskFilter{Ended: true}, []string{"t5", "t4", "t2", "t1"}},
			{fleet.TaskFilter{Source: fleet.SourceHuman, Owner: "alice"}, []string{"t3", "t1"}},
			{fleet.TaskFilter{Since: noon.Add(3 * time.Second)}, []string{"t5", "t4", "t3"}},
			{fleet.TaskFilter{Text: "login"}, []string{"t4", "t3", "t1"}},
			{fleet.TaskFilter{Text: "LOGIN", Owner: "alice", Status: fleet.TaskFailed}, []string{"t1"}},
			{fleet.TaskFilter{Text: "0% l"}, []string{"t1"}},
			{fleet.TaskFilter{Text: `l "quoted" *`}, []string{"t3"}},
			{fleet.TaskFilter{Text: "ÄPF"}, []string{"t3"}},
			{fleet.TaskFilter{Text: "DO"}, []string{"t2"}},
			{fleet.TaskFilter{Text: "%"}, []string{"t1"}},
			{fleet.TaskFilter{Text: "nothing like this"}, nil},
			{fleet.TaskFilter{Selector: selector("env=prod")}, []string{"t1"}},
			{fleet.TaskFilter{Selector: selector("env")}, []string{"t3", "t1"}},
			{fleet.TaskFilter{Selector: selector("env in (prod,test),!old"), Owner: "alice"}, []string{"t3"}},
			{fleet.TaskFilter{Selector: selector("env!=test")}, []string{"t5", "t4", "t2", "t1"}},
			{fleet.TaskFilter{Selector: selector("!env")}, []string{"t5", "t4", "t2"}},
			{fleet.TaskFilter{Selector: selector("env notin (prod,x),env"), Text: "login"}, []string{"t3"}},
			{fleet.TaskFilter{Selector: selector("env=none")}, nil},
		} {
			tasks, total := findTasks(t, s, c.filter, 100, 0)
			require.Equal(t, c.want, taskIDs(tasks), "%+v", c.filter)
			require.Equal(t, len(c.want), total, "%+v", c.filter)
		}
		tasks, total := findTasks(t, s, fleet.TaskFilter{}, 2, 1)
		require.Equal(t, []string{"t4", "t3"}, taskIDs(tasks))
		require.Equal(t, 5, total)
		tasks, _ = findTasks(t, s, fleet.TaskFilter{}, 2, 5)
		require.Empty(t, tasks)

		update(t, s, func(tx fleet.Tx) error {
			changed := task("t3", 3*time.Second, fleet.TaskCompleted, fleet.SourceHuman, "something else", "pears")
			changed.AgentUID, changed.AgentName, changed.Owner = "u2", "Papi", "alice"
			return tx.Update(changed)
		})
		tasks, _ = findTasks(t, s, fleet.TaskFilter{Text: "login"}, 100, 0)
		require.Equal(t, []string{"t4", "t1"}, taskIDs(tasks), "a replaced text must not be found")
		tasks, _ = findTasks(t, s, fleet.TaskFilter{Text: "pears"}, 100, 0)
		require.Equal(t, []string{"t3"}, taskIDs(tasks))
	}},

	{"task ids are found by their prefix", func(t *testing.T, s fleet.Store) {
		a, b := addAgent(t, s), newAgent("u2", "sony", "bob")
		insertRows(t, s, b)
		for id, agent := range map[string]*fleet.Agent{"abc-1": a, "abc-2": a, "abd-3": b} {
			done := newTask(id, agent)
			done.Status = fleet.TaskCompleted
			insertRows(t, s, done)
		}
		var shared, projects []string
		ids := func(prefix, owner string, limit int) []string {
			f := fleet.TaskFilter{Owner: owner, SharedUIDs: shared, Projects: projects}
			return read(t, s, func(tx fleet.ReadTx) ([]string, error) { return tx.TaskIDs(prefix, f, limit) })
		}
		require.Equal(t, []string{"abc-1", "abc-2", "abd-3"}, ids("ab", "", 10))
		require.Equal(t, []string{"abc-1", "abc-2"}, ids("ab", "alice", 10))
		require.Equal(t, []string{"abc-1"}, ids("ab", "alice", 1))
		require.Equal(t, []string{"abc-2"}, ids("abc-2", "alice", 10))
		require.Empty(t, ids("ab%", "", 10))
		shared = []string{b.UID}
		require.Equal(t, []string{"abc-1", "abc-2", "abd-3"}, ids("ab", "alice", 10))
		require.Equal(t, []string{"abd-3"}, ids("ab", "carol", 10))

		elsewhere := newAgent("u3", "carl", "alice")
		elsewhere.Project = "DataOne"
		insertRows(t, s, elsewhere)
		other := newTask("abc-0", elsewhere)
		other.Status = fleet.TaskCompleted
		insertRows(t, s, other)
		shared = nil
		for _, ref := range []string{a.Project, a.Place + "/" + a.Project} {
			projects = []string{ref}
			require.Equal(t, []string{"abc-1"}, ids("ab", "alice", 1), "tasks of other projects must not count for the limit")
			require.Equal(t, []string{"abc-1", "abc-2"}, ids("ab", "alice", 2))
		}
		projects = []string{"elsewhere/" + a.Project}
		require.Empty(t, ids("ab", "alice", 2))
		projects = nil
		require.Equal(t, []string{"abc-0"}, ids("ab", "alice", 1))
		require.Empty(t, ids("", "", 10))
	}},

	{"windows of the matching tasks", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		update(t, s, func(tx fleet.Tx) error {
			for i := range 5 {
				task := newTask(id("t", i), a)
				task.Status, task.EndedAt, task.Summary = fleet.TaskCompleted, noon, "it works"
				task.CreatedAt = noon.Add(time.Duration(i/2) * time.Second) // two tasks have the same time
				if err := tx.Insert(task); err != nil {
					return err
				}
			}
			return nil
		})
		for _, f := range []fleet.TaskFilter{{}, {Owner: a.Owner}, {Text: "it works"}, {Text: "it"}, {AgentName: a.Name}, {AgentUID: a.UID, Source: fleet.SourceHuman}} {
			for _, c := range []struct {
				window fleet.TaskWindow
				want   string // the expected tasks
				total  int
				more   bool
				last   bool
			}{
				{fleet.TaskWindow{}, "", 0, false, false},
				{fleet.TaskWindow{Count: 9}, "", 5, false, false},
				{fleet.TaskWindow{Limit: 2}, "43", 0, false, false},
				{fleet.TaskWindow{Limit: 2, Count: 4}, "43", 4, true, false},
				{fleet.TaskWindow{Limit: 2, Count: 5}, "43", 5, false, false},
				{fleet.TaskWindow{Limit: 2, Offset: 2, Count: 1}, "21", 1, true, false},
				{fleet.TaskWindow{Limit: 2, Offset: 3}, "10", 5, false, true},
				{fleet.TaskWindow{Limit: 2, Offset: 3, Count: 1}, "10", 5, false, true},
				{fleet.TaskWindow{Limit: 2, Offset: 4}, "0", 5, false, true},
				{fleet.TaskWindow{Limit: 2, Offset: 5, Count: 4}, "", 4, true, true},
				{fleet.TaskWindow{Limit: 2, Offset: 6, Count: 9}, "", 5, false, true},
				{fleet.TaskWindow{Limit: 2, Offset: 1, After: id("t", 4), Count: 4}, "32", 4, true, false},
				{fleet.TaskWindow{Limit: 3, Offset: 3, After: id("t", 2), Count: 4}, "10", 5, false, true},
				{fleet.TaskWindow{Limit: 2, Offset: 2, After: "gone", Count: 4}, "21", 4, true, false},
			} {
				view(t, s, func(tx fleet.ReadTx) error {
					found, err := tx.FindTasks(f, c.window)
					require.NoError(t, err)
					var got strings.Builder
					for _, task := range found.Tasks {
						got.WriteString(task.ID[len(task.ID)-1:])
					}
					require.Equal(t, c.want, got.String(), "%+v %+v", f, c.window)
					require.Equal(t, []any{c.total, c.more, c.last}, []any{found.Total, found.More, found.AtEnd}, "%+v %+v", f, c.window)
					return nil
				})
			}
		}
	}},
}

func findTasks(t tb, s fleet.Store, f fleet.TaskFilter, limit, offset int) (tasks []*fleet.Task, total int) {
	t.Helper()
	view(t, s, func(tx fleet.ReadTx) (err error) {
		found, err := tx.FindTasks(f, fleet.TaskWindow{Limit: limit, Offset: offset, Count: 1000})
		tasks, total = found.Tasks, found.Total
		return err
	})
	return tasks, total
}

// BenchmarkFindTasks measures reading a page of tasks with several filters. tasks must be a multiple of 1000.
func BenchmarkFindTasks(b *testing.B, s fleet.Store, tasks int) {
	text := strings.Repeat("please fix the login page and run the tests ", 7)
	for from := 0; from < tasks; from += 1000 {
		update(b, s, func(tx fleet.Tx) error {
			a := newAgent(id("uid", from), id("agent", from), "alice")
			a.Toolset = fleet.ToolsetFleet
			require.NoError(b, tx.Insert(a))
			for i := from; i < from+1000; i++ {
				task := fullTask(id("task", i), a)
				task.CreatedAt, task.Description = noon.Add(time.Duration(i)*time.Second), text+id("number", i)
				require.NoError(b, tx.Insert(task))
			}
			return nil
		})
	}
	toolset := fleet.ToolsetFleet
	for _, c := range []struct {
		name   string
		filter fleet.TaskFilter
		offset int
	}{
		{"all", fleet.TaskFilter{Toolset: &toolset}, 0},
		{"owner", fleet.TaskFilter{Toolset: &toolset, Owner: "alice"}, 0},
		{"owner, last page", fleet.TaskFilter{Toolset: &toolset, Owner: "alice"}, tasks - 20},
		{"stranger", fleet.TaskFilter{Toolset: &toolset, Owner: "bob"}, 0},
		{"agent", fleet.TaskFilter{Toolset: &toolset, Owner: "alice", AgentName: id("agent", 1000)}, 0},
		{"status without tasks", fleet.TaskFilter{Toolset: &toolset, Owner: "alice", Status: fleet.TaskFailed}, 0},
		{"since", fleet.TaskFilter{Toolset: &toolset, Owner: "alice", Since: noon.Add(time.Duration(tasks-100) * time.Second)}, 0},
		{"text of one", fleet.TaskFilter{Toolset: &toolset, Owner: "alice", Text: id("number", tasks/2)}, 0},
		{"text of all", fleet.TaskFilter{Toolset: &toolset, Owner: "alice", Text: "login page"}, 0},
		{"short text", fleet.TaskFilter{Toolset: &toolset, Owner: "alice", Text: "zz"}, 0},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				findTasks(b, s, c.filter, 20, c.offset)
			}
		})
	}
}
