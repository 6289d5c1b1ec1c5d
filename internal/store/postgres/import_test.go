package postgres_test

import (
	"database/sql"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/store/postgres"
	"fleet/internal/store/postgres/pgtest"
	"fleet/internal/store/sqlite"
)

// TestImportedTables checks that Import fills every table of the schema, except tables that servers fill for themselves.
func TestImportedTables(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s, err := postgres.Open(t.Context(), url, postgres.Config{})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	serverTables := []string{ // servers fill these for themselves
		"goose_db_version", "compatibility", "inbox", "sequencer", "leases", "replicas", "stored_changes",
	}
	rows, err := dial(t, url).Query(t.Context(), `SELECT table_name::text FROM information_schema.tables WHERE table_schema = current_schema() AND table_type = 'BASE TABLE'`)
	require.NoError(t, err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	tables = slices.DeleteFunc(tables, func(name string) bool { return slices.Contains(serverTables, name) })
	require.ElementsMatch(t, postgres.ImportedTables, tables)
}

// TestImportRenamesPlaces checks that Import renames places in the JSON of queued tasks, pools, schedules and budgets too.
func TestImportRenamesPlaces(t *testing.T) {
	t.Parallel()
	from, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "fleet.db"), sqlite.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, from.Close()) })
	role := fleet.ProjectRole{Place: "local", Project: "shell", Role: "worker"}
	task := &fleet.Task{ID: "t1", Description: "work", Status: fleet.TaskPending, Source: fleet.SourceHuman, CreatedAt: time.Now(), Owner: "alice"}
	task.Delegation.Grant = &fleet.Grant{Projects: []string{"local/shell", "local"}}
	require.NoError(t, from.Update(t.Context(), func(tx fleet.Tx) error {
		return errors.Join(tx.Insert(task),
			tx.Put("t1", &fleet.QueueEntry{Target: fleet.Target{ProjectRole: role}, Priority: 3, UnconfinedIn: "local"}),
			fleet.PutResource(tx, fleet.PoolKind, "p", fleet.Pool{ProjectRole: role, Labels: fleet.Labels{"place": "local"}}),
			fleet.PutResource(tx, fleet.ScheduleKind, "s", fleet.Schedule{Projects: []string{"local/shell", "coder/shell"}, Task: []byte(`{"project":"local/shell"}`)}),
			fleet.PutResource(tx, fleet.BudgetKind, "b", fleet.Budget{Scope: fleet.BudgetProject, Value: "local/shell"}),
			fleet.PutResource(tx, fleet.BudgetKind, "l", fleet.Budget{Scope: fleet.BudgetLabel, Value: "local/team=web"}))
	}))
	url := pgtest.URL(t)
	require.NoError(t, from.Export(t.Context(), func(rows func(string) (*sql.Rows, error)) error {
		_, err := postgres.Import(t.Context(), url, map[string]string{"local": "local@works"}, rows, func() error { return nil })
		return err
	}))

	require.NoError(t, openAt(t, url, postgres.Config{}).View(t.Context(), func(tx fleet.ReadTx) error {
		queued, err := tx.Queue(fleet.QueueFilter{All: true})
		require.NoError(t, err)
		require.Len(t, queued, 1)
		require.Equal(t, "local@works", queued[0].Entry.Target.Place)
		require.Equal(t, "local@works", queued[0].Entry.UnconfinedIn)
		require.Equal(t, 3, queued[0].Entry.Priority)
		require.Equal(t, []string{"local@works/shell", "local"}, queued[0].Delegation.Grant.Projects)
		pool, err := fleet.ReadResource[fleet.Pool](tx, fleet.PoolKind, "p")
		require.NoError(t, err)
		require.Equal(t, "local@works", pool.Place)
		require.Equal(t, fleet.Labels{"place": "local"}, pool.Labels)
		schedule, err := fleet.ReadResource[fleet.Schedule](tx, fleet.ScheduleKind, "s")
		require.NoError(t, err)
		require.Equal(t, []string{"local@works/shell", "coder/shell"}, schedule.Projects)
		require.JSONEq(t, `{"project":"local@works/shell"}`, string(schedule.Task))
		for name, value := range map[string]string{"b": "local@works/shell", "l": "local/team=web"} {
			budget, err := fleet.ReadResource[fleet.Budget](tx, fleet.BudgetKind, name)
			require.NoError(t, err)
			require.Equal(t, value, budget.Value)
		}
		return nil
	}))
}
