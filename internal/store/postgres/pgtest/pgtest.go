// Package pgtest gives each test a Postgres database. It starts one Postgres server for each test program, with the
// programs of Debian's package.
package pgtest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"fleet/internal/store/postgres"
)

// enableEnv names the environment variable that enables the tests with Postgres.
const enableEnv = "FLEET_TEST_POSTGRES"

// Enabled reports whether tests with Postgres are enabled. `make test-postgres` enables them.
func Enabled() bool { return os.Getenv(enableEnv) != "" }

// SkipUnlessEnabled skips the test if tests with Postgres are not enabled. It does not check that Postgres is installed: Start
// returns an error if it is not.
func SkipUnlessEnabled(t testing.TB) {
	t.Helper()
	if !Enabled() {
		t.Skip("`make test-postgres` runs this test")
	}
}

var shared struct {
	sync.Mutex
	server *Server
	err    error // why the server could not be prepared
	count  atomic.Int64
}

// Run runs the tests of a program, stops the server if a test has started it, and returns the exit code. Call it in TestMain.
func Run(m interface{ Run() int }) int {
	code := m.Run()
	shared.Lock()
	defer shared.Unlock()
	if shared.server != nil {
		if err := shared.server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return max(code, 1)
		}
	}
	return code
}

// template is a database with the schema of a store. Tests get copies of it.
const template = "fleet_template"

// URL returns the URL of a database for the test. The database has the schema of a store and no data. URL calls
// SkipUnlessEnabled.
func URL(t testing.TB) string {
	t.Helper()
	s := sharedServer(t)
	name := s.takeReusable()
	if name == "" {
		name = s.createDatabase(t, template)
	}
	t.Cleanup(func() { // runs after the test's stores are closed
		if err := s.clearDatabase(context.WithoutCancel(t.Context()), name); err != nil {
			t.Error(err)
			return
		}
		s.giveReusable(name)
	})
	return s.URL(name)
}

// EmptyURL returns the URL of a new database without a schema. EmptyURL calls SkipUnlessEnabled.
func EmptyURL(t testing.TB) string {
	t.Helper()
	s := sharedServer(t)
	name := s.createDatabase(t, "template0")
	t.Cleanup(func() {
		if err := s.Exec(context.WithoutCancel(t.Context()), "postgres", `DROP DATABASE `+name+` WITH (FORCE)`); err != nil {
			t.Error(err)
		}
	})
	return s.URL(name)
}

// createDatabase creates a copy of the database from, and returns its name. That takes a hundred times longer than clearing a
// database, so cleared databases are reused.
func (s *Server) createDatabase(t testing.TB, from string) string {
	t.Helper()
	name := fmt.Sprintf("test_%d", shared.count.Add(1))
	require.NoError(t, s.Exec(t.Context(), "postgres", `CREATE DATABASE `+name+` TEMPLATE `+from))
	return name
}

// clearDatabase removes all data from a database and keeps its schema. It disables triggers: some count the deleted rows, and others
// would check foreign keys while only some tables are empty.
func (s *Server) clearDatabase(ctx context.Context, name string) error {
	return s.Exec(ctx, name, `DO $$
		DECLARE
			name text;
		BEGIN
			SET LOCAL session_replication_role = replica;
			FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename NOT IN ('goose_db_version', 'sequencer', 'compatibility') LOOP
				EXECUTE format('DELETE FROM %I', name);
			END LOOP;
			UPDATE sequencer SET seq = 0;
		END $$`)
}

// takeReusable returns the name of a cleared database; "" if there is none.
func (s *Server) takeReusable() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.reusable) == 0 {
		return ""
	}
	name := s.reusable[len(s.reusable)-1]
	s.reusable = s.reusable[:len(s.reusable)-1]
	return name
}

// giveReusable makes a cleared database available for another test.
func (s *Server) giveReusable(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reusable = append(s.reusable, name)
}

// sharedServer returns the server of this program, and starts it if it does not run yet.
func sharedServer(t testing.TB) *Server {
	t.Helper()
	SkipUnlessEnabled(t)
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil && shared.err == nil {
		shared.server, shared.err = startWithTemplate()
	}
	require.NoError(t, shared.err)
	return shared.server
}

// startWithTemplate starts a server and creates the template database. It returns the server, which must be stopped, even if the
// creation fails.
func startWithTemplate() (*Server, error) {
	s, err := Start("")
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	if err := s.Exec(ctx, "postgres", `CREATE DATABASE `+template); err != nil {
		return s, err
	}
	store, err := postgres.Open(ctx, s.URL(template), postgres.Config{})
	if err != nil {
		return s, err
	}
	return s, store.Close()
}

// URL returns the URL of the server's database with the name.
func (s *Server) URL(name string) string {
	u := url.URL{Scheme: "postgres", Path: "/" + name, RawQuery: url.Values{"host": {s.Dir}, "user": {superuser}}.Encode()}
	return u.String()
}

// Exec runs a statement in the database with the name.
func (s *Server) Exec(ctx context.Context, name, statement string) error {
	conn, err := pgx.Connect(ctx, s.URL(name))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	_, err = conn.Exec(ctx, statement)
	return err
}
