package app

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/store/postgres"
	"fleet/internal/store/postgres/pgtest"
	"fleet/internal/store/sqlite"
	"fleet/internal/store/storetest"
	"fleet/internal/waittest"
)

// filledStore returns a data directory whose store has objects of every kind, and the store.
func filledStore(t *testing.T) (dir string, s *sqlite.Store) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "data")
	s, err := sqlite.Open(t.Context(), Config{Data: dir}.sqlitePath(), sqlite.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	storetest.Fill(t, s)
	return dir, s
}

// TestImport imports a store in SQLite into Postgres. The import must refuse a store whose server runs and a database that
// is not empty. Afterwards, a server on the store in SQLite must refuse to start.
func TestImport(t *testing.T) {
	t.Parallel()
	dir, from := filledStore(t)
	env := []string{"FLEET_STORE=" + pgtest.URL(t), "FLEET_DATA=" + dir}

	restricted := &fleet.Token{Name: "restricted", Kind: fleet.KindHuman, Scope: fleet.ScopeRun, Hash: "x", CreatedAt: time.Now().UTC().Truncate(time.Second), Projects: []string{"local/shell", "coder/shell", "shell"}}
	require.NoError(t, from.Update(t.Context(), func(tx fleet.Tx) error { return tx.Insert(restricted) }))
	_, err := from.AcquireLease(t.Context(), "agent/u1", "a server", time.Hour)
	require.NoError(t, err)
	code, _, stderr := runCommand(t.Context(), env, "import")
	require.NotZero(t, code)
	require.Contains(t, stderr, "stop it first")
	require.NoError(t, from.ReleaseLease(t.Context(), "agent/u1", "a server"))

	code, stdout, stderr := runCommand(t.Context(), env, "import")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "2 agents, 2 tasks")

	code, _, stderr = runCommand(t.Context(), env, "import")
	require.NotZero(t, code)
	require.Contains(t, stderr, "not empty")

	code, _, stderr = runCommand(t.Context(), env[1:], "agent", "list", "--embedded")
	require.NotZero(t, code)
	require.Contains(t, stderr, "was imported into Postgres", "otherwise, two servers would run the same agents")
	require.Contains(t, examineFile(t, "", "FLEET_DATA="+dir)["store"].Message, "was imported into Postgres")
	left, err := filepath.Glob(filepath.Join(dir, "tmp", "*", "fleet.db"))
	require.NoError(t, err)
	require.Empty(t, left, "the import must remove its copy of the database")

	name, err := os.ReadFile(filepath.Join(dir, replicaFile))
	require.NoError(t, err)
	to := openPostgres(t, env[0][len("FLEET_STORE="):])
	require.NoError(t, to.View(t.Context(), func(tx fleet.ReadTx) error {
		a, err := tx.Agent("u1")
		require.NoError(t, err)
		place := "local@" + strings.TrimSpace(string(name))
		require.Equal(t, place, a.Place)
		k, err := fleet.CurrentToken(tx.Tokens(fleet.TokenFilter{Name: "restricted"}))
		require.Equal(t, []string{place + "/shell", "coder/shell", "shell"}, k.Projects)
		return err
	}))

	url := pgtest.URL(t)
	require.NoError(t, from.Export(t.Context(), func(rows func(string) (*sql.Rows, error)) error {
		_, err := postgres.Import(t.Context(), url, nil, rows, func() error { return nil })
		return err
	}))
	storetest.RequireSame(t, from, openPostgres(t, url))
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.Background())) }()
	var rows float64
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT reltuples FROM pg_class WHERE oid = 'tasks'::regclass`).Scan(&rows))
	require.InDelta(t, 2, rows, 0, "the import must update the statistics of the database")
}

// TestImportIsMarkedAtOnce interrupts an import that has committed and updates the statistics of the database. The data directory must already
// be marked as imported, and the command must succeed.
func TestImportIsMarkedAtOnce(t *testing.T) {
	t.Parallel()
	dir, _ := filledStore(t)
	url := pgtest.URL(t)
	require.NoError(t, openPostgres(t, url).Close()) // creates the tables
	session := func() *pgx.Conn {
		conn, err := pgx.Connect(t.Context(), url)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, conn.Close(context.Background())) })
		return conn
	}
	before, after, watch := session(), session(), session()
	awaitWaitingSessions := func(n int) {
		waittest.Until(t, "Postgres does not signal that a session waits for a lock", func() bool {
			var waiting int
			require.NoError(t, watch.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks WHERE relation = 'tasks'::regclass AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&waiting))
			return waiting == n
		})
	}
	_, err := before.Exec(t.Context(), `BEGIN; LOCK TABLE tasks IN EXCLUSIVE MODE`)
	require.NoError(t, err)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	type result struct {
		code           int
		stdout, stderr string
	}
	ended := make(chan result, 1)
	go func() {
		code, stdout, stderr := runCommand(ctx, []string{"FLEET_STORE=" + url, "FLEET_DATA=" + dir}, "import")
		ended <- result{code, stdout, stderr}
	}()
	awaitWaitingSessions(1) // the import
	locked := make(chan error, 1)
	go func() {
		_, err := after.Exec(t.Context(), `BEGIN; LOCK TABLE tasks IN SHARE UPDATE EXCLUSIVE MODE`) // gets the table after the commit, and keeps it from VACUUM
		locked <- err
	}()
	awaitWaitingSessions(2)
	_, err = before.Exec(t.Context(), `ROLLBACK`)
	require.NoError(t, err)
	require.NoError(t, <-locked)
	awaitWaitingSessions(1) // VACUUM
	require.FileExists(t, filepath.Join(dir, importedFile))
	interrupt()
	r := <-ended
	require.Zero(t, r.code, r.stderr)
	require.Contains(t, r.stdout, "2 agents, 2 tasks")
}

func openPostgres(t *testing.T, url string) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), url, postgres.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// TestImportNeedsBoth checks that the import needs both a database in Postgres and a store in SQLite.
func TestImportNeedsBoth(t *testing.T) {
	t.Parallel()
	code, _, stderr := runCommand(t.Context(), []string{"FLEET_DATA=" + t.TempDir()}, "import")
	require.NotZero(t, code)
	require.Contains(t, stderr, "--store")
	code, _, stderr = runCommand(t.Context(), []string{"FLEET_DATA=" + t.TempDir(), "FLEET_STORE=postgres://nobody@127.0.0.1:1/x"}, "import")
	require.NotZero(t, code)
	require.Contains(t, stderr, "fleet.db")
}
