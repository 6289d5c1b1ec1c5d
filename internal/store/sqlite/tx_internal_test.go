package sqlite

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

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

// running gets a value when a statement calls the SQL function running.
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

// TestCancelledStatement checks that a connection is not reused after a statement was interrupted, which makes SQLite
// roll back the transaction.
func TestCancelledStatement(t *testing.T) {
	t.Parallel()
	const forever = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) `
	s := openTest(t)
	// The context must end while SQLite works, because SQLite ignores an interruption that comes just before a statement.
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
		_, err := record.QueryFirst(x.(*baseTx), record.ScanInt, forever+`SELECT max(i) FROM n WHERE running() = 1`)
		return err
	})
	require.ErrorIs(t, err, context.Canceled)

	for range 2 * readerCount() {
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
		_, err := record.QueryFirst(x.(*baseTx), record.ScanInt, `DELETE FROM events RETURNING seq`)
		return err
	})
	require.ErrorContains(t, err, "attempt to write a readonly database")
}

// TestUpdateRetriesWhenBusy checks that Update repeats its function after a busy error. A test cannot make SQLite busy
// at a commit, so the function itself returns the error.
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

// lockError returns the error of a write while another process holds the write lock. It must be called while s cannot
// get the lock.
func lockError(t *testing.T, s *Store) error {
	t.Helper()
	err := s.writer.with(t.Context(), func(c *conn) error {
		_, err := c.exec(t.Context(), "BEGIN IMMEDIATE")
		return err
	})
	require.True(t, isBusy(err), "%v", err)
	return err
}

// TestQueryPlans checks that frequent queries do not scan or sort a whole table.
func TestQueryPlans(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	where := func(f fleet.EventFilter) string {
		w, _, err := eventConditions(f)
		require.NoError(t, err)
		return selectEvents + w
	}
	find := func(f fleet.TaskFilter) string {
		return taskConditions(f, false).numbersQuery(`tasks`, newestFirst)
	}
	toolset := fleet.ToolsetFleet
	usage := func(part record.UsageTasks) string {
		return `SELECT ''` + usageOfTasks + usageConditions(part).where + `true`
	}
	since := fleet.TaskFilter{Since: time.Unix(1, 0)}
	const follow, newest = `seq > ? ORDER BY seq LIMIT ?`, `seq > 0 ORDER BY seq DESC LIMIT ?`
	for _, c := range []struct{ query, want string }{
		{record.SelectAgents + `WHERE uid = ?`, "SEARCH agents USING INDEX sqlite_autoindex_agents_1 (uid=?)"},
		{record.SelectAgents + `WHERE name_key = ? AND deleted_at IS NULL` + record.ByName, "SEARCH agents USING INDEX agents_name (name_key=?)"},
		{record.SelectAgents + `WHERE name_key = ? AND owner = ? AND deleted_at IS NULL` + record.ByName, "SEARCH agents USING INDEX agents_name (name_key=? AND owner=?)"},
		{record.SelectAgents + `WHERE deleted_at IS NULL` + record.ByName, "SCAN agents USING INDEX agents_name"},
		{record.SelectTasks + `WHERE id = ?`, "SEARCH tasks USING INDEX sqlite_autoindex_tasks_1 (id=?)"},
		{record.SelectTasks + `WHERE agent_uid = ? AND ` + record.RunningCondition, "SEARCH tasks USING INDEX tasks_active (agent_uid=?)"},
		{record.SelectTasks + `WHERE agent_uid ` + inList + ` AND ` + record.RunningCondition, "SEARCH tasks USING INDEX tasks_active (agent_uid=?)"},
		{record.SelectTasks + `WHERE true AND ` + record.RunningCondition, "SCAN tasks USING INDEX tasks_active"},
		{selectOwnedAgents, "SEARCH owned USING PRIMARY KEY (owner=?)"},
		{selectOwnedInToolset, "SEARCH owned USING PRIMARY KEY (owner=? AND toolset=?)"},
		{countOwnedTasks, "SEARCH tasks USING COVERING INDEX tasks_owned (owner=? AND status=?)"},
		{countProjectAgents, "SEARCH agents USING COVERING INDEX agents_project (project=? AND deleted_at=?)"},
		{countProjectTasks, "SEARCH tasks USING COVERING INDEX tasks_project (project=? AND status=?)"},
		{selectOwnedBytes, "SEARCH stored USING PRIMARY KEY (owner=?)"},
		{selectAgentTasks, "SEARCH tasks USING INDEX tasks_history (agent_uid=?)"},
		{`SELECT count(*) FROM tasks WHERE agent_uid = ?`, "SEARCH tasks USING COVERING INDEX tasks_history (agent_uid=?)"},
		{selectTaskIDs, "SEARCH tasks USING INDEX sqlite_autoindex_tasks_1 (id>? AND id<?)"},
		{record.SelectAgents + record.NewestAgent, "SEARCH agents USING INDEX agents_ever (name_key=?)"},
		{selectOldPayloads, "SEARCH tasks USING INDEX tasks_payload (ended_at<?)"},
		{record.DeleteEvents, "events_task (task_id=?)"},
		{record.DeleteMessages, "messages_task (task_id=?)"},
		{record.DeleteQuestions, "questions_task (task_id=?)"},
		{usage(record.UsageTasks{Filter: since, Status: record.ActiveCondition}), "SCAN tasks USING INDEX tasks_project"},
		{usage(record.UsageTasks{Filter: since, Status: record.EndedCondition}), "SEARCH tasks USING INDEX tasks_listed (created_at>?)"},
		{usage(record.UsageTasks{Filter: since, Agents: []string{"u"}, ExceptOwner: "x"}), "SEARCH tasks USING INDEX tasks_history (agent_uid=?)"},
		{find(fleet.TaskFilter{}), "SCAN tasks USING COVERING INDEX tasks_listed"},
		{find(fleet.TaskFilter{Since: time.Unix(1, 0)}), "SEARCH tasks USING COVERING INDEX tasks_listed (created_at>?)"},
		{find(fleet.TaskFilter{Owner: "x", Toolset: &toolset}), "SEARCH tasks USING COVERING INDEX tasks_listed_owner (owner=?)"},
		{find(fleet.TaskFilter{Toolset: &toolset, Status: fleet.TaskCompleted}), "SEARCH tasks USING COVERING INDEX tasks_listed_toolset (toolset=?)"},
		{find(fleet.TaskFilter{Toolset: &toolset, Status: fleet.TaskFailed, Owner: "x"}), "SEARCH tasks USING COVERING INDEX tasks_listed_status (status=?)"},
		{find(fleet.TaskFilter{Toolset: &toolset, Source: fleet.SourceAgent}), "SEARCH tasks USING COVERING INDEX tasks_listed_source (source=?)"},
		{find(fleet.TaskFilter{Toolset: &toolset, Project: "x"}), "SEARCH tasks USING COVERING INDEX tasks_listed_project (project=?)"},
		{find(fleet.TaskFilter{Toolset: &toolset, AgentUID: "x"}), "SEARCH tasks USING INDEX tasks_history (agent_uid=?)"},
		{find(fleet.TaskFilter{Selector: fleet.Selector{{Key: "env"}}, Owner: "x", Toolset: &toolset}), "SCAN tasks USING INDEX tasks_labelled"},
		{record.SelectDeliveries + `webhook = ?` + record.NewestDeliveries, "SEARCH deliveries USING INDEX deliveries_webhook (webhook=?)"},
		{record.SelectDeliveries + `webhook = ?` + record.DueDeliveries, "SEARCH deliveries USING INDEX deliveries_waiting (webhook=?)"},
		{pruneDeliveries, "SEARCH deliveries USING COVERING INDEX deliveries_created (created_at<?)"},
		{selectLastSeq, "SEARCH events"},
		{selectChangedAgents, "SEARCH events USING COVERING INDEX events_changes (seq>?)"},
		{selectChangedAgents, "SEARCH leases USING PRIMARY KEY (key=?)"},
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
			assert.True(t, !strings.HasPrefix(line, "SCAN") || strings.Contains(line, " INDEX ") || strings.Contains(line, "json_each") || strings.HasPrefix(line, "SCAN (subquery"), plan)
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

// TestQueryPlansOfFewTasks checks the plans of queries that find only a few tasks. These queries may sort the tasks.
func TestQueryPlansOfFewTasks(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	toolset := fleet.ToolsetFleet
	for _, c := range []struct {
		filter fleet.TaskFilter
		want   string
	}{
		{fleet.TaskFilter{Toolset: &toolset, Owner: "x", AgentName: "x"}, "SEARCH tasks USING INDEX tasks_history (agent_uid=?)"},
		{fleet.TaskFilter{Toolset: &toolset, Owner: "x", Shared: []string{"u"}}, "SEARCH tasks USING INTEGER PRIMARY KEY (rowid=?)"},
	} {
		assert.Contains(t, explain(t, s, taskConditions(c.filter, false).numbersQuery(`tasks`, newestFirst)), c.want)
	}
}

// TestQueryPlanOfTexts checks that a search for a text ends when it has found enough tasks.
func TestQueryPlanOfTexts(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	toolset := fleet.ToolsetFleet
	q := taskConditions(fleet.TaskFilter{Toolset: &toolset, Owner: "x", Since: time.Unix(1, 0)}, true)
	q.add(`tasks_text MATCH ?`)
	q.addAfter(position{}, true)
	plan := explain(t, s, q.numbersQuery(fromTextIndex, lastFirst))
	assert.Contains(t, plan, "SCAN tasks_text VIRTUAL TABLE INDEX")
	assert.Contains(t, plan, "SEARCH tasks USING INTEGER PRIMARY KEY (rowid=?)")
	assert.NotContains(t, plan, "TEMP B-TREE")
}

// TestTextIsFound compares searches with and without the full-text index.
func TestTextIsFound(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	begun := time.Unix(1_700_000_000, 0)
	const long, decoy = "fix the Login", "the fix is in the login"
	require.NoError(t, s.Update(t.Context(), func(w fleet.Tx) error {
		a := &fleet.Agent{UID: "u", Name: "a", Owner: "x", State: fleet.StateRunning, Desired: fleet.DesiredRunning, CreatedAt: begun, UpdatedAt: begun}
		require.NoError(t, w.Insert(a))
		for i := range 100 {
			task := &fleet.Task{
				ID: fmt.Sprint("t", i), AgentUID: a.UID, AgentName: a.Name, Owner: a.Owner, Source: fleet.SourceHuman, Status: fleet.TaskCompleted,
				CreatedAt: begun.Add(time.Duration(i-i%7*3) * time.Second), EndedAt: begun,
			}
			switch i % 3 {
			case 0:
				task.Description = "please FIX tHe login now"
			case 1:
				task.Summary = decoy
			}
			require.NoError(t, w.Insert(task))
		}
		return nil
	}))
	require.NoError(t, s.View(t.Context(), func(tx fleet.ReadTx) error {
		for _, text := range []string{"login", "the Login", long, decoy, "login now but"} {
			want, err := record.QueryAll(tx.(*baseTx), record.ScanString, `SELECT id FROM tasks WHERE `+containsText+lastFirst, text, text)
			require.NoError(t, err)
			find := func(w fleet.TaskWindow) (got []string) {
				w.Limit, w.Count = 10, 30
				found, err := tx.FindTasks(fleet.TaskFilter{Owner: "x", Text: text}, w)
				require.NoError(t, err)
				for _, task := range found.Tasks {
					got = append(got, task.ID)
				}
				require.Equal(t, min(30, len(want)), found.Total, text)
				return got
			}
			require.Equal(t, want[:min(10, len(want))], find(fleet.TaskWindow{}), text)
			if len(want) > 0 {
				require.Equal(t, want[7:17], find(fleet.TaskWindow{Offset: 7}), text)
				require.Equal(t, want[5:15], find(fleet.TaskWindow{After: want[4]}), text)
			}
		}
		return nil
	}))
}

// TestTextIsFoldedAsInTheIndex checks that hasText matches the same texts as the full-text index. The index treats some
// other characters as ASCII letters.
func TestTextIsFoldedAsInTheIndex(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("sqlite", ":memory:")
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	db.SetMaxOpenConns(1)
	var texts []string
	for r := rune(utf8.RuneSelf); r <= unicode.MaxRune; r++ {
		if unicode.SimpleFold(r) != r || unicode.ToLower(r) != r {
			texts = append(texts, "__"+string(r))
		}
	}
	for _, q := range []string{
		`CREATE TABLE tasks (n INTEGER PRIMARY KEY, description TEXT, summary TEXT)`,
		`CREATE VIRTUAL TABLE tasks_text USING fts5 (description, summary, content = '', contentless_delete = 1, tokenize = 'trigram')`,
		`INSERT INTO tasks SELECT key, '', value FROM json_each('` + jsonList(texts) + `')`,
		`INSERT INTO tasks_text (rowid, description, summary) SELECT n, description, summary FROM tasks`,
	} {
		_, err := db.ExecContext(t.Context(), q)
		require.NoError(t, err)
	}
	count := func(where string, args ...any) (n int) {
		require.NoError(t, db.QueryRowContext(t.Context(), `SELECT count(*) FROM tasks WHERE `+where, args...).Scan(&n))
		return n
	}
	folded := 0
	for c := 'a'; c <= 'z'; c++ {
		text := "__" + string(c)
		n := count(`n IN `+textRows, quotePhrase(text))
		folded += n
		require.Equal(t, n, count(hasText, text, text), text)
		require.Equal(t, n, count(hasText+` AND n IN `+textRows, text, text, quotePhrase(text)), text)
	}
	require.Positive(t, folded)
}

// TestSecretAfterManyStatements reads a secret on a connection that keeps no further statement prepared.
func TestSecretAfterManyStatements(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	require.NoError(t, s.write(t.Context(), func(c *conn) error {
		for i := range maxStmts {
			if _, err := c.stmt(t.Context(), fmt.Sprintf("SELECT %d", i)); err != nil {
				return err
			}
		}
		return nil
	}))
	for range 2 {
		kept, err := s.Secret(t.Context(), "key", []byte("value"))
		require.NoError(t, err)
		require.Equal(t, []byte("value"), kept)
	}
}
