package postgres_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/store/postgres"
	"fleet/internal/store/postgres/pgtest"
)

// manyTasks is more than the number of newest tasks that a search reads first.
const manyTasks = 12_000

// addTasks adds tasks and returns them in the order of lists. Newer tasks have higher numbers, with some exceptions.
func addTasks(t *testing.T, url string, describe func(i int) string) (tasks []*fleet.Task) {
	t.Helper()
	s, err := postgres.Open(t.Context(), url, postgres.Config{})
	require.NoError(t, err)
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	require.NoError(t, s.Update(t.Context(), func(tx fleet.Tx) error {
		a := &fleet.Agent{UID: "u", Name: "u", Owner: "alice", State: fleet.StateRunning, Desired: fleet.DesiredRunning, CreatedAt: at, UpdatedAt: at}
		if err := tx.Insert(a); err != nil {
			return err
		}
		return tx.Insert(&fleet.Task{ID: "first", AgentUID: "u", AgentName: "u", Owner: "alice", Source: fleet.SourceHuman, Status: fleet.TaskCompleted, CreatedAt: at, EndedAt: at})
	}))
	require.NoError(t, s.Close())
	var texts, ids []string
	var times []time.Time
	for i := range manyTasks {
		created := at.Add(time.Duration(1+i/2+i*7919%40) * time.Second)
		tasks = append(tasks, &fleet.Task{ID: fmt.Sprint("t", i), Description: describe(i), CreatedAt: created})
		ids, texts, times = append(ids, tasks[i].ID), append(texts, tasks[i].Description), append(times, created)
	}
	conn := dial(t, url)
	defer func() { require.NoError(t, conn.Close(context.WithoutCancel(t.Context()))) }()
	_, err = conn.Exec(t.Context(), `SET session_replication_role = replica`) // disables triggers
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), `INSERT INTO tasks OVERRIDING SYSTEM VALUE
		SELECT (jsonb_populate_record(t, jsonb_build_object('n', t.n + i, 'id', given.id, 'description', text, 'search', text, 'created_at', at))).*
		FROM tasks AS t, unnest($1::text[], $2::text[], $3::timestamptz[]) WITH ORDINALITY AS given (id, text, at, i) WHERE t.id = 'first'`, ids, texts, times)
	require.NoError(t, err)
	slices.Reverse(tasks) // of tasks with the same time, the last comes first
	slices.SortStableFunc(tasks, func(a, b *fleet.Task) int { return b.CreatedAt.Compare(a.CreatedAt) })
	return tasks
}

// describeTask returns the description of task i. Some of its words are frequent, and some are rare, among all tasks or among the newest.
func describeTask(i int) string {
	words := []string{"everywhere"}
	for _, every := range []int{7, 150, 400, 3000} {
		if i%every == 0 {
			words = append(words, fmt.Sprint("each", every), fmt.Sprint("together each", every))
		}
	}
	if i < 300 {
		words = append(words, "long ago", "évery ünicode 日本語 wörd tögether each400 long ago")
	}
	if i > manyTasks-4 || i < 30 {
		words = append(words, "seldom and seldom")
	}
	return strings.Join(words, " ")
}

// TestTextIsFoundAmongMany compares searches for texts of different frequencies with a simple scan, in pages and by
// cursors. It also counts the scans of the index of texts: a frequent text must be found without the index, and one
// scan of the index must find and count a rare text.
func TestTextIsFoundAmongMany(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	tasks := addTasks(t, url, describeTask)
	conn := dial(t, url)
	_, err := conn.Exec(t.Context(), `VACUUM ANALYZE tasks`)
	require.NoError(t, err)
	for text, want := range map[string]int{"each7": 0, "together each150": 0, "long ago": 1, "seldom": 1} {
		require.Equal(t, want, textScans(t, conn, url, text), text)
	}

	s := openAt(t, url, postgres.Config{})
	for _, text := range []string{
		"everywhere", "each7", "each150", "each400", "together each7", "together each150", "together Each400", "each3000", "long ago", "ago", "seldom and seldom", "nowhere", "%",
		"Everywhere each7 together each7 together", "together, each400", "e each400 t", "ago and", "and seldom", "seldom seldom", "seldom_and", "évery ünicode 日本語 wörd tögether each400", "日本語 wörd", `each400\`, "each400%each400",
	} {
		var want []string
		for _, task := range tasks {
			if strings.Contains(task.Description, strings.ToLower(text)) {
				want = append(want, task.ID)
			}
		}
		for _, w := range []fleet.TaskWindow{
			{Limit: 20, Count: 1000}, {Limit: 20}, {Limit: 5, Offset: 30, Count: 1000}, {Limit: 300, Count: 10}, {Limit: 20, Offset: 1 << 40, Count: 1000},
		} {
			checkWindow(t, s, text, want, w)
			if after := len(want) / 2; after < len(want) && w.Offset < manyTasks {
				w.After, w.Offset = want[after], after+1
				checkWindow(t, s, text, want, w)
			}
		}
	}
}

// textScans returns how often a search for the text scans the index of texts.
func textScans(t *testing.T, conn *pgx.Conn, url, text string) int {
	t.Helper()
	scans := func() (n int) {
		require.NoError(t, conn.QueryRow(t.Context(), `SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'tasks_text'`).Scan(&n))
		return n
	}
	before := scans()
	s, err := postgres.Open(t.Context(), url, postgres.Config{})
	require.NoError(t, err)
	require.NoError(t, s.View(t.Context(), func(tx fleet.ReadTx) error {
		found, err := tx.FindTasks(fleet.TaskFilter{Text: text}, fleet.TaskWindow{Limit: 20, Count: 500})
		require.Len(t, found.Tasks, 20)
		return err
	}))
	require.NoError(t, s.Close())
	waitAlone(t, conn)
	return scans() - before
}

// checkWindow checks that the search for the text returns the window of the wanted tasks. It searches with and without
// a filter by owner, which must make no difference, because all tasks have the same owner.
func checkWindow(t *testing.T, s fleet.Store, text string, want []string, w fleet.TaskWindow) {
	t.Helper()
	for _, owner := range []string{"", "alice"} {
		var found fleet.FoundTasks
		require.NoError(t, s.View(t.Context(), func(tx fleet.ReadTx) (err error) {
			found, err = tx.FindTasks(fleet.TaskFilter{Owner: owner, Text: text}, w)
			return err
		}))
		checkFound(t, found, text, want, w)
	}
}

// checkFound checks the page, whether it is the last one, and the number of matching tasks. want has the ids of all matching tasks.
func checkFound(t *testing.T, found fleet.FoundTasks, text string, want []string, w fleet.TaskWindow) {
	t.Helper()
	var ids []string
	for _, task := range found.Tasks {
		ids = append(ids, task.ID)
	}
	from := min(w.Offset, len(want))
	to := min(from+w.Limit, len(want))
	require.Equal(t, append([]string(nil), want[from:to]...), ids, "%s %+v", text, w)
	require.Equal(t, to == len(want), found.AtEnd, "%s %+v", text, w)
	switch {
	case found.AtEnd && len(ids) > 0:
		require.Equal(t, len(want), found.Total, "%s %+v", text, w)
	case w.Count == 0:
		require.Zero(t, found.Total, "%s %+v", text, w)
	case found.More:
		require.LessOrEqual(t, found.Total, min(w.Count, len(want)), "%s %+v", text, w)
	default:
		require.Equal(t, len(want), found.Total, "%s %+v", text, w)
	}
}
