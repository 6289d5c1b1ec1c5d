package sqlite

import (
	"context"
	sqldriver "database/sql/driver"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	driver "modernc.org/sqlite"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

func openTest(t *testing.T) *Store {
	t.Helper()
	s, err := Open(context.WithoutCancel(t.Context()), filepath.Join(t.TempDir(), "fleet.db"), Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// running has a receiver told that a statement with the function running runs.
var running = make(chan struct{})

func init() {
	driver.MustRegisterScalarFunction("running", 0, func(*driver.FunctionContext, []sqldriver.Value) (sqldriver.Value, error) {
		select {
		case running <- struct{}{}:
		default:
		}
		return int64(1), nil
	})
}

// An interrupted statement makes SQLite roll back. The connection must not be used again in that state.
func TestCancelledStatement(t *testing.T) {
	t.Parallel()
	const forever = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) `
	s := openTest(t)
	// The context ends while SQLite works: it forgets an interruption that comes just before.
	cancelled := func() context.Context {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			defer cancel()
			select {
			case <-running:
			case <-t.Context().Done():
			}
		}()
		return ctx
	}
	err := s.Update(cancelled(), func(x fleet.Tx) error {
		require.NoError(t, x.Append(&fleet.Event{Type: fleet.EventAgentChanged}))
		_, err := x.(*tx).exec(forever + `INSERT INTO leases SELECT 'k', 'me', i, 1 FROM n WHERE running() = 0`)
		return err
	})
	require.ErrorIs(t, err, context.Canceled)

	err = s.View(cancelled(), func(x fleet.ReadTx) error {
		_, err := first(x.(*readTx), scanInt, forever+`SELECT max(i) FROM n WHERE running() = 1`)
		return err
	})
	require.ErrorIs(t, err, context.Canceled)

	for range 2 * cap(s.reader.free) {
		seq, err := s.LastSeq(t.Context())
		require.NoError(t, err)
		require.Zero(t, seq)
	}
	require.NoError(t, s.Update(t.Context(), func(x fleet.Tx) error { return x.Append(&fleet.Event{}) }))
}

func TestViewCannotWrite(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	require.NoError(t, s.View(t.Context(), func(x fleet.ReadTx) error {
		_, is := x.(fleet.Tx)
		require.False(t, is)
		return nil
	}))
	err := s.View(t.Context(), func(x fleet.ReadTx) error {
		_, err := first(x.(*readTx), scanInt, `DELETE FROM commits RETURNING n`)
		return err
	})
	require.ErrorContains(t, err, "attempt to write a readonly database")
}

// The condition that makes SQLite busy at a commit cannot be produced here, but the error can.
func TestUpdateRetriesWhenBusy(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	other, err := Open(t.Context(), s.path, Config{})
	require.NoError(t, err)
	defer other.Close()
	runs := 0
	require.NoError(t, s.Update(t.Context(), func(x fleet.Tx) error {
		runs++
		if runs < 3 {
			return lockError(t, other)
		}
		return x.Append(&fleet.Event{})
	}))
	require.Equal(t, 3, runs)
	seq, err := s.LastSeq(t.Context())
	require.NoError(t, err)
	require.Equal(t, int64(1), seq)
}

// lockError returns the error of a writer that waits while another one holds the write lock.
func lockError(t *testing.T, s *Store) error {
	t.Helper()
	err := s.writer.with(t.Context(), func(c *conn) error {
		_, err := c.exec(t.Context(), "BEGIN IMMEDIATE")
		return err
	})
	require.True(t, busy(err), "%v", err)
	return err
}

// Frequent queries must not scan or sort a whole table.
func TestQueryPlans(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	where := func(f fleet.EventFilter) string {
		w, _, err := conditions(f)
		require.NoError(t, err)
		return selectEvents + w
	}
	find := func(f fleet.TaskFilter) string {
		return taskNumbers + (textQuery{filter: f, phrase: f.Text, rare: f.Text != ""}).conditions().where + `true` + newestFirst
	}
	toolset := fleet.ToolsetFleet
	const follow, newest = `seq > ? ORDER BY seq LIMIT ?`, `seq > 0 ORDER BY seq DESC LIMIT ?`
	for _, c := range []struct{ query, want string }{
		{record.SelectAgents + `WHERE uid = ?`, "SEARCH agents USING INDEX sqlite_autoindex_agents_1 (uid=?)"},
		{record.SelectAgents + `WHERE name_key = ? AND deleted_at IS NULL` + byName, "SEARCH agents USING INDEX agents_name (name_key=?)"},
		{record.SelectAgents + `WHERE name_key = ? AND owner = ? AND deleted_at IS NULL` + byName, "SEARCH agents USING INDEX agents_name (name_key=? AND owner=?)"},
		{record.SelectAgents + `WHERE deleted_at IS NULL` + byName, "SCAN agents USING INDEX agents_name"},
		{record.SelectTasks + `WHERE id = ?`, "SEARCH tasks USING INDEX sqlite_autoindex_tasks_1 (id=?)"},
		{record.SelectTasks + `WHERE agent_uid = ? AND ` + record.Active, "SEARCH tasks USING INDEX tasks_active (agent_uid=?)"},
		{record.SelectTasks + `WHERE agent_uid ` + uidsIn + ` AND ` + record.Active, "SEARCH tasks USING INDEX tasks_active (agent_uid=?)"},
		{record.SelectTasks + `WHERE ` + record.Active, "SCAN tasks USING INDEX tasks_project"},
		{ownedAgents, "SEARCH agents USING COVERING INDEX agents_owned (owner=?)"},
		{ownedTasks, "SEARCH tasks USING COVERING INDEX tasks_owned (owner=? AND status=?)"},
		{agentsIn, "SEARCH agents USING COVERING INDEX agents_project (project=? AND deleted_at=?)"},
		{tasksIn, "SEARCH tasks USING COVERING INDEX tasks_project (project=? AND status=?)"},
		{ownedBytes, "SEARCH stored USING PRIMARY KEY (owner=?)"},
		{listTasks, "SEARCH tasks USING INDEX tasks_history (agent_uid=?)"},
		{`SELECT count(*) FROM tasks WHERE agent_uid = ?`, "SEARCH tasks USING COVERING INDEX tasks_history (agent_uid=?)"},
		{taskIDs, "SEARCH tasks USING INDEX sqlite_autoindex_tasks_1 (id>? AND id<?)"},
		{newestAgent, "SEARCH agents USING INDEX agents_ever (name_key=?)"},
		{oldPayloads, "SEARCH tasks USING INDEX tasks_payload (ended_at<?)"},
		{dropEvents, "events_task (task_id=?)"},
		{dropMessages, "messages_task (task_id=?)"},
		{dropQuestions, "questions_task (task_id=?)"},
		{find(fleet.TaskFilter{}), "SCAN tasks USING COVERING INDEX tasks_listed"},
		{find(fleet.TaskFilter{Since: time.Unix(1, 0)}), "SEARCH tasks USING COVERING INDEX tasks_listed (created_at>?)"},
		{find(fleet.TaskFilter{Owner: "x", Toolset: &toolset}), "SEARCH tasks USING COVERING INDEX tasks_listed_owner (owner=?)"},
		{find(fleet.TaskFilter{Toolset: &toolset, Status: fleet.TaskCompleted}), "SEARCH tasks USING COVERING INDEX tasks_listed_toolset (toolset=?)"},
		{find(fleet.TaskFilter{Toolset: &toolset, Status: fleet.TaskFailed, Owner: "x"}), "SEARCH tasks USING COVERING INDEX tasks_listed_status (status=?)"},
		{find(fleet.TaskFilter{Toolset: &toolset, Source: fleet.SourceAgent}), "SEARCH tasks USING COVERING INDEX tasks_listed_source (source=?)"},
		{find(fleet.TaskFilter{Toolset: &toolset, Project: "x"}), "SEARCH tasks USING COVERING INDEX tasks_listed_project (project=?)"},
		{find(fleet.TaskFilter{Toolset: &toolset, AgentUID: "x"}), "SEARCH tasks USING INDEX tasks_history (agent_uid=?)"},
		{lastSeq, "SEARCH events"},
		{changedAgents, "SEARCH events USING COVERING INDEX events_changes (seq>?)"},
		{where(fleet.EventFilter{}) + follow, "SEARCH events USING INTEGER PRIMARY KEY (rowid>?)"},
		{where(fleet.EventFilter{Owner: "x"}) + follow, "SEARCH events USING INDEX events_owner (owner=? AND seq>?)"},
		{where(fleet.EventFilter{AgentName: "x"}) + newest, "SEARCH events USING INDEX events_name (name_key=? AND seq>?)"},
		{where(fleet.EventFilter{AgentUID: "x"}) + newest, "SEARCH events USING INDEX events_agent (agent_uid=? AND seq>?)"},
		{where(fleet.EventFilter{TaskID: "x"}) + follow, "SEARCH events USING INDEX events_task (task_id=? AND seq>?)"},
	} {
		plan := explain(t, s, c.query)
		assert.Contains(t, plan, c.want, c.query)
		assert.NotContains(t, plan, "TEMP B-TREE FOR ORDER", c.query)
		for line := range strings.Lines(plan) {
			assert.True(t, !strings.HasPrefix(line, "SCAN") || strings.Contains(line, " INDEX ") || strings.Contains(line, "json_each"), plan)
		}
	}
}

func explain(t *testing.T, s *Store, query string) string {
	t.Helper()
	n := strings.Count(query, "?")
	for _, number := range regexp.MustCompile(`\?(\d+)`).FindAllStringSubmatch(query, -1) {
		at, err := strconv.Atoi(number[1])
		require.NoError(t, err)
		n = max(n, at)
	}
	args := make([]any, n)
	for i := range args {
		args[i] = 1
	}
	rows, err := s.dbs[0].QueryContext(t.Context(), `EXPLAIN QUERY PLAN `+query, args...)
	require.NoError(t, err)
	defer rows.Close()
	var plan strings.Builder
	for rows.Next() {
		var id, parent, unused int
		var detail string
		require.NoError(t, rows.Scan(&id, &parent, &unused, &detail))
		plan.WriteString(detail + "\n")
	}
	require.NoError(t, rows.Err())
	return plan.String()
}

// These sort what they find, of which there is little.
func TestQueryPlansOfFewTasks(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	toolset := fleet.ToolsetFleet
	for _, c := range []struct {
		filter fleet.TaskFilter
		want   string
	}{
		{fleet.TaskFilter{Toolset: &toolset, Owner: "x", AgentName: "x"}, "SEARCH tasks USING INDEX tasks_history (agent_uid=?)"},
		{fleet.TaskFilter{Toolset: &toolset, Owner: "x", Text: "fix"}, "SEARCH tasks USING INTEGER PRIMARY KEY (rowid=?)"},
		{fleet.TaskFilter{Toolset: &toolset, Owner: "x", Shared: []string{"u"}}, "SEARCH tasks USING INTEGER PRIMARY KEY (rowid=?)"},
	} {
		q := textQuery{filter: c.filter, phrase: c.filter.Text, rare: c.filter.Text != ""}
		assert.Contains(t, explain(t, s, taskNumbers+q.conditions().where+`true`+newestFirst), c.want)
	}
}

// A text that many tasks have is searched for in spans of time. Tasks need not be in the order in which they were created.
func TestFrequentText(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	begun := time.Unix(1_700_000_000, 0)
	require.NoError(t, s.Update(t.Context(), func(tx fleet.Tx) error {
		a := &fleet.Agent{UID: "u", Name: "a", Owner: "x", State: fleet.StateRunning, Desired: fleet.DesiredRunning, CreatedAt: begun, UpdatedAt: begun}
		require.NoError(t, tx.InsertAgent(a))
		for i := range 100 {
			task := &fleet.Task{
				ID: fmt.Sprint("t", i), AgentUID: a.UID, AgentName: a.Name, Owner: a.Owner, Source: fleet.SourceHuman, Status: fleet.TaskCompleted,
				CreatedAt: begun.Add(time.Duration(i*37%50) * time.Second), EndedAt: begun,
			}
			if i%3 == 0 {
				task.Description = "fix the login"
			}
			require.NoError(t, tx.InsertTask(task))
		}
		return nil
	}))
	require.NoError(t, s.View(t.Context(), func(tx fleet.ReadTx) error {
		q := textQuery{readTx: tx.(*readTx), filter: fleet.TaskFilter{Owner: "x", Text: "login"}, phrase: `"login"`, rare: true}
		want, err := q.numbers(beginning, 100, 0)
		require.NoError(t, err)
		require.Len(t, want, 34)
		fifth, err := first(q.readTx, scanPosition, `SELECT created_at, n FROM tasks WHERE n = ?`, want[4])
		require.NoError(t, err)
		q.rare = false
		for _, q.span = range []int{1, 2, 3, 20, 200} {
			for _, limit := range []int{1, 10, 34, 50} {
				got, err := q.numbers(beginning, limit, 0)
				require.NoError(t, err)
				require.Equal(t, want[:min(limit, 34)], got)
				got, err = q.numbers(beginning, limit, 7)
				require.NoError(t, err)
				require.Equal(t, want[7:min(7+limit, 34)], got)
				got, err = q.numbers(fifth, limit, 0)
				require.NoError(t, err)
				require.Equal(t, want[5:min(5+limit, 34)], got)
				n, err := q.count(limit)
				require.NoError(t, err)
				require.Equal(t, min(limit, 34), n)
			}
		}
		return nil
	}))
}
