package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/store/postgres"
	"fleet/internal/store/postgres/pgtest"
	"fleet/internal/waittest"
)

func appendEvent(ctx context.Context, s fleet.Store, text string) (seq int64, err error) {
	e := &fleet.Event{Type: fleet.EventAgentChanged, AgentUID: "u1", Text: text}
	if err := s.Update(ctx, func(tx fleet.Tx) error { return tx.Append(e) }); err != nil {
		return 0, err
	}
	return s.LastSeq(ctx)
}

func dial(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// waitAlone waits until conn is the only connection to its database. By then, the other connections have written their
// statistics.
func waitAlone(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	waittest.Until(t, "nothing signals that the connections have ended", func() bool {
		var others int
		require.NoError(t, conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
			AND backend_type = 'client backend'`).Scan(&others))
		return others == 0
	})
}

// TestUnreachable kills the database's server while a store is used, and starts it again. Calls must fail meanwhile and work
// afterwards.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	pgtest.SkipUnlessEnabled(t)
	server, err := pgtest.Start("")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop()) })
	s, err := postgres.Open(t.Context(), server.URL("postgres"), postgres.Config{})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	before, err := appendEvent(t.Context(), s, "before")
	require.NoError(t, err)

	require.NoError(t, server.Kill())
	_, err = appendEvent(t.Context(), s, "meanwhile")
	require.Equal(t, fleet.ReasonBackendUnavailable, fleet.ReasonOf(err), "%v", err)
	_, err = s.LastSeq(t.Context())
	require.Equal(t, fleet.ReasonBackendUnavailable, fleet.ReasonOf(err), "%v", err)
	_, err = s.Lease(t.Context(), "k", "me", time.Hour)
	require.Equal(t, fleet.ReasonBackendUnavailable, fleet.ReasonOf(err), "%v", err)
	require.Equal(t, fleet.ReasonBackendUnavailable, fleet.ReasonOf(s.View(t.Context(), func(tx fleet.ReadTx) error {
		_, err := tx.Agents(fleet.AgentFilter{})
		return err
	})))
	require.NotContains(t, fleet.PublicMessage(err), "connect", "the message must not contain internal details")
	_, err = postgres.Open(t.Context(), server.URL("postgres"), postgres.Config{})
	require.Equal(t, fleet.ReasonBackendUnavailable, fleet.ReasonOf(err), "%v", err)

	require.NoError(t, server.Restart())
	after, err := appendEvent(t.Context(), s, "after")
	require.NoError(t, err, "the store must work again by itself")
	require.Equal(t, before+1, after)
	other, err := postgres.Open(t.Context(), server.URL("postgres"), postgres.Config{})
	require.NoError(t, err)
	defer func() { require.NoError(t, other.Close()) }()
	requireNotified(t, s, other)
}

// requireNotified requires that subscribers of s are notified of a commit of the store other.
func requireNotified(t *testing.T, s, other fleet.Store) {
	t.Helper()
	signal, cancel := s.Subscribe()
	defer cancel()
	seq, err := appendEvent(t.Context(), other, "")
	require.NoError(t, err)
	for {
		receive(t, signal)
		got, err := s.LastSeq(t.Context())
		require.NoError(t, err)
		if got >= seq {
			return
		}
	}
}

// receive waits for a notification.
func receive(t *testing.T, signal <-chan struct{}) {
	t.Helper()
	select {
	case <-signal:
	case <-time.After(waittest.Limit):
		t.Fatal("no notification has arrived in time")
	}
}

// insertIntoInbox leaves a committed event in the inbox, as if a replica had died after its commit.
const insertIntoInbox = `INSERT INTO inbox (time, type, agent_uid, agent_name, name_key, owner, task_id, status, text)
	VALUES (now(), 'agent_changed', 'u1', 'a', 'a', 'alice', '', '', 'left')`

// TestLostNotification adds an event to the log without a notification, as if a replica had died just after its commit.
// Subscribers of another replica must be notified although nothing else happens.
func TestLostNotification(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s := openAt(t, url, postgres.Config{})
	conn := dial(t, url)
	signal, cancel := s.Subscribe()
	defer cancel()
	for range 3 {
		tx, err := conn.Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), insertIntoInbox)
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), `SELECT fleet_stamp(10)`)
		require.NoError(t, err)
		require.NoError(t, tx.Commit(t.Context()))
		receive(t, signal)
	}
}

// TestConcurrentAgentCreation creates an agent while the transaction that creates another agent is still open. The second
// creation must not wait for the first one. Neither agent has a workspace yet.
func TestConcurrentAgentCreation(t *testing.T) {
	t.Parallel()
	s := open(t)
	create := func(uid string, also func()) error {
		return s.Update(t.Context(), func(tx fleet.Tx) error {
			a := &fleet.Agent{UID: uid, Name: uid, Owner: "alice", Place: "fake", State: fleet.StatePending, Desired: fleet.DesiredRunning, CreatedAt: time.Now(), UpdatedAt: time.Now()}
			if err := tx.Insert(a); err != nil {
				return err
			}
			_, err := tx.Agent(uid) // sends the deferred insert and takes the locks
			also()
			return err
		})
	}
	require.NoError(t, create("u1", func() {
		require.NoError(t, create("u2", func() {}))
	}))
}

// TestActiveTaskIsFoundByItsAgent lets the database plan the query for an active task while no task runs. Then all
// indexes of active tasks look equally good, but the query must use the index tasks_current.
func TestActiveTaskIsFoundByItsAgent(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s, err := postgres.Open(t.Context(), url, postgres.Config{})
	require.NoError(t, err)
	const agents = 200
	now := time.Now()
	require.NoError(t, s.Update(t.Context(), func(tx fleet.Tx) error {
		for i := range agents {
			uid := fmt.Sprint("u", i)
			a := &fleet.Agent{UID: uid, Name: uid, Owner: "alice", State: fleet.StateRunning, Desired: fleet.DesiredRunning, CreatedAt: now, UpdatedAt: now}
			task := &fleet.Task{ID: uid, AgentUID: uid, AgentName: uid, Owner: "alice", Source: fleet.SourceHuman, Status: fleet.TaskCompleted, CreatedAt: now, EndedAt: now}
			if err := errors.Join(tx.Insert(a), tx.Insert(task)); err != nil {
				return err
			}
		}
		return nil
	}))
	require.NoError(t, s.Close())
	conn := dial(t, url)
	waitAlone(t, conn)
	_, err = conn.Exec(t.Context(), `VACUUM ANALYZE`)
	require.NoError(t, err)
	scans := func() (n int) {
		require.NoError(t, conn.QueryRow(t.Context(), `SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'tasks_current'`).Scan(&n))
		return n
	}
	before := scans()
	s, err = postgres.Open(t.Context(), url, postgres.Config{})
	require.NoError(t, err)
	require.NoError(t, s.View(t.Context(), func(tx fleet.ReadTx) error {
		for i := range agents {
			_, err := tx.RunningTask(fmt.Sprint("u", i))
			_, viewsErr := tx.AgentViews(fleet.AgentViewFilter{UIDs: []string{fmt.Sprint("u", i)}})
			if err := errors.Join(err, viewsErr); err != nil {
				return err
			}
		}
		return nil
	}))
	require.NoError(t, s.Close())
	waitAlone(t, conn)
	require.Equal(t, 2*agents, scans()-before)
}

// TestRowsAreFoundByKey lets the database analyse empty tables and plan statements for them. The table of leases, for example,
// is empty most of the time. When the tables have rows later, the statements must still find rows by key.
func TestRowsAreFoundByKey(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s, err := postgres.Open(t.Context(), url, postgres.Config{})
	require.NoError(t, err)
	conn := dial(t, url)
	_, err = conn.Exec(t.Context(), `VACUUM ANALYZE`)
	require.NoError(t, err)
	var before int64
	const scans = `SELECT coalesce(sum(seq_scan), 0)::bigint FROM pg_stat_user_tables WHERE relname IN ('agents', 'tasks', 'leases')`
	require.NoError(t, conn.QueryRow(t.Context(), scans).Scan(&before))
	const times = 30
	now := time.Now()
	for i := range times {
		key := fmt.Sprint("agent/", i)
		epoch, err := s.Lease(t.Context(), key, "r1", time.Hour)
		require.NoError(t, err)
		held := fleet.WithLease(t.Context(), fleet.Lease{Key: key, Epoch: epoch})
		require.NoError(t, s.Update(held, func(tx fleet.Tx) error {
			uid := fmt.Sprint("u", i)
			a := &fleet.Agent{UID: uid, Name: uid, Owner: "alice", State: fleet.StateRunning, Desired: fleet.DesiredRunning, CreatedAt: now, UpdatedAt: now}
			task := &fleet.Task{ID: uid, AgentUID: uid, AgentName: uid, Owner: "alice", Source: fleet.SourceHuman, Status: fleet.TaskRunning, CreatedAt: now, StartedAt: now}
			if err := errors.Join(tx.Insert(a), tx.Insert(task)); err != nil {
				return err
			}
			_, err := tx.RunningTask(uid)
			return err
		}))
		require.NoError(t, s.Release(t.Context(), key, "r1"))
	}
	require.NoError(t, s.Close())
	waitAlone(t, conn)
	var after int64
	require.NoError(t, conn.QueryRow(t.Context(), scans).Scan(&after))
	require.Less(t, after-before, int64(times), "statements of updates must not read whole tables")
}

// TestPolling checks that a store that polls notices commits of another store. Config.Poll is for poolers that do not pass
// notifications.
func TestPolling(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s := openAt(t, url, postgres.Config{Poll: true})
	for range 3 {
		requireNotified(t, s, openAt(t, url, postgres.Config{Poll: true}))
	}
}

// TestConnectionsAreCut breaks the connections of a store while the store is used. No acknowledged event may be lost.
func TestConnectionsAreCut(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s := openAt(t, url, postgres.Config{})
	conn := dial(t, url)
	const cut = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'`
	acknowledged := 0
	for i := range 60 {
		if i%10 == 5 {
			_, err := conn.Exec(t.Context(), cut)
			require.NoError(t, err)
		}
		if _, err := appendEvent(t.Context(), s, ""); err == nil {
			acknowledged++
		}
	}
	require.Greater(t, acknowledged, 50, "the store must replace broken idle connections without errors for most calls")
	seq, err := s.LastSeq(t.Context())
	require.NoError(t, err)
	require.GreaterOrEqual(t, seq, int64(acknowledged))
	requireNotified(t, s, openAt(t, url, postgres.Config{}))
}

// TestCallersGiveUp lets callers give up while the database executes their statements. If a statement ends soon afterwards, its
// connection must stay open, because opening another one takes the database longer than most statements.
func TestCallersGiveUp(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s := openAt(t, url, postgres.Config{})
	conn := dial(t, url)
	ask := func(query string, to any) { require.NoError(t, conn.QueryRow(t.Context(), query).Scan(to)) }
	const others = ` FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`
	for name, call := range map[string]func(context.Context) error{
		"read": func(ctx context.Context) error {
			return s.View(ctx, func(tx fleet.ReadTx) error { _, err := tx.Agent("u1"); return err })
		},
		"write": func(ctx context.Context) error {
			return s.Update(ctx, func(tx fleet.Tx) error { _, err := tx.Agent("u1"); return err })
		},
	} {
		waittest.Until(t, "on a busy machine, a statement may end too late after its caller has given up", func() bool {
			require.NoError(t, call(t.Context()))
			var before, after []int32
			ask(`SELECT array_agg(pid)`+others, &before)
			lock, err := conn.Begin(t.Context())
			require.NoError(t, err)
			_, err = lock.Exec(t.Context(), `LOCK TABLE agents IN ACCESS EXCLUSIVE MODE`)
			require.NoError(t, err)
			ctx, giveUp := context.WithCancel(t.Context())
			defer giveUp()
			result := make(chan error, 1)
			go func() { result <- call(ctx) }()
			waittest.Until(t, "a statement that waits for a lock gives no signal", func() bool {
				var waits bool
				ask(`SELECT count(*) > 0`+others+` AND wait_event_type = 'Lock'`, &waits)
				return waits
			})
			giveUp()
			require.NoError(t, lock.Rollback(t.Context()))
			require.ErrorIs(t, <-result, context.Canceled, name)
			require.NoError(t, call(t.Context()))
			ask(`SELECT array_agg(pid)`+others, &after)
			return !slices.ContainsFunc(before, func(pid int32) bool { return !slices.Contains(after, pid) })
		})
	}
}

// TestEventsOfADeadReplica leaves an event in the inbox, as if a replica had died after its commit. Another replica must move
// the event to the log.
func TestEventsOfADeadReplica(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s := openAt(t, url, postgres.Config{})
	signal, cancel := s.Subscribe()
	defer cancel()
	_, err := dial(t, url).Exec(t.Context(), insertIntoInbox)
	require.NoError(t, err)
	for {
		receive(t, signal)
		seq, err := s.LastSeq(t.Context())
		require.NoError(t, err)
		if seq == 1 {
			return
		}
	}
}

// TestPausedTransaction pauses a transaction in the middle. The database must end the transaction and release its
// locks, so that other transactions can continue.
func TestPausedTransaction(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	paused := openAt(t, url+"&idle_in_transaction_session_timeout=200", postgres.Config{})
	s := openAt(t, url, postgres.Config{})
	a := &fleet.Agent{UID: "u1", Name: "a", State: fleet.StateRunning, Desired: fleet.DesiredRunning}
	require.NoError(t, s.Update(t.Context(), func(tx fleet.Tx) error { return tx.Insert(a) }))
	tries := 0
	err := paused.Update(t.Context(), func(tx fleet.Tx) error {
		if tries++; tries > 1 {
			return context.Canceled // the second run has begun, so end the test here
		}
		_, err := tx.Agent("u1")
		require.NoError(t, err)
		require.NoError(t, s.Update(t.Context(), func(tx fleet.Tx) error { // waits for the paused transaction
			a, err := tx.Agent("u1")
			if err != nil {
				return err
			}
			a.Attempts = 7
			return tx.Update(a)
		}))
		a.Attempts = 8
		return tx.Update(a)
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 2, tries, "the paused transaction must be repeated")
}

// TestRenewalDuringAWait renews the leases of a server while one of its transactions waits for a lock. The renewal must
// not wait too, because the server would lose all its leases.
func TestRenewalDuringAWait(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s, other := openAt(t, url, postgres.Config{}), openAt(t, url, postgres.Config{})
	a := &fleet.Agent{UID: "u1", Name: "a", State: fleet.StateRunning, Desired: fleet.DesiredRunning}
	require.NoError(t, s.Update(t.Context(), func(tx fleet.Tx) error { return tx.Insert(a) }))
	epoch, err := s.Lease(t.Context(), "k", "one", time.Hour)
	require.NoError(t, err)
	touch := func(tx fleet.Tx) error {
		a, err := tx.Agent("u1")
		if err != nil {
			return err
		}
		return tx.Update(a)
	}
	conn, waited := dial(t, url), make(chan error, 1)
	require.NoError(t, other.Update(t.Context(), func(tx fleet.Tx) error {
		if err := touch(tx); err != nil {
			return err
		}
		_, err := tx.Agent("u1") // sends the write
		require.NoError(t, err)
		go func() { waited <- s.Update(fleet.WithLease(t.Context(), fleet.Lease{Key: "k", Epoch: epoch}), touch) }()
		waittest.Until(t, "nothing signals that a transaction waits", func() bool {
			var waits bool
			require.NoError(t, conn.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity
				WHERE datname = current_database() AND wait_event_type = 'Lock')`).Scan(&waits))
			return waits
		})
		renewed, err := s.RenewLeases(t.Context(), "one", time.Hour, []string{"k"})
		require.NoError(t, err)
		require.Equal(t, map[string]int64{"k": epoch}, renewed)
		return nil
	}))
	require.NoError(t, <-waited)
}

// TestNewerSchema opens a database with a newer schema. The store must use it unless the schema says that it needs a
// newer program.
func TestNewerSchema(t *testing.T) {
	t.Parallel()
	url := pgtest.EmptyURL(t)
	s, err := postgres.Open(t.Context(), url, postgres.Config{})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	_, err = dial(t, url).Exec(t.Context(), `INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, true)`)
	require.NoError(t, err)
	s, err = postgres.Open(t.Context(), url, postgres.Config{})
	require.NoError(t, err)
	_, err = appendEvent(t.Context(), s, "old")
	require.NoError(t, err)
	require.NoError(t, s.Close())
	_, err = dial(t, url).Exec(t.Context(), `UPDATE compatibility SET oldest = 9999`)
	require.NoError(t, err)
	_, err = postgres.Open(t.Context(), url, postgres.Config{})
	require.ErrorContains(t, err, "needs a Fleet that supports at least version 9999")
}

// TestSchemaOfABranch opens a database whose schema lacks a migration but has a later one. The store must refuse it.
func TestSchemaOfABranch(t *testing.T) {
	t.Parallel()
	url := pgtest.EmptyURL(t)
	s, err := postgres.Open(t.Context(), url, postgres.Config{})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	_, err = dial(t, url).Exec(t.Context(), `DELETE FROM goose_db_version WHERE version_id = 1`)
	require.NoError(t, err)
	_, err = dial(t, url).Exec(t.Context(), `INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, true)`)
	require.NoError(t, err)
	const want = "but lacks the earlier version 1: another build of Fleet made it, for example from a branch: use that build, or another database"
	_, err = postgres.Open(t.Context(), url, postgres.Config{})
	require.ErrorContains(t, err, want)
	_, err = postgres.Schema(t.Context(), url)
	require.ErrorContains(t, err, want)
}

// TestOpenTogether checks that many replicas can open stores in an empty database at the same time.
func TestOpenTogether(t *testing.T) {
	t.Parallel()
	url := pgtest.EmptyURL(t)
	errs := make(chan error, 4)
	for range cap(errs) {
		go func() {
			s, err := postgres.Open(context.WithoutCancel(t.Context()), url, postgres.Config{})
			if err == nil {
				err = s.Close()
			}
			errs <- err
		}()
	}
	for range cap(errs) {
		require.NoError(t, <-errs)
	}
}

func TestRedact(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"postgres://fleet:hunter2@h/db":                  "postgres://fleet:xxxxx@h/db",
		"postgres://h/db?user=fleet&password=hunter2":    "postgres://h/db?password=xxxxx&user=fleet",
		"postgres://fleet@h/db":                          "postgres://fleet@h/db",
		"postgres://h/db?sslpassword=hunter2":            "postgres://h/db?sslpassword=xxxxx",
		"postgres://fleet:hunter2@[::1/db":               "postgres://",
		"postgres://fleet:hun%zzter2@h/db?sslmode=false": "postgres://",
	} {
		require.Equal(t, want, postgres.Redact(url))
		require.Equal(t, strings.Contains(url, "hun"), postgres.HasPassword(url), url)
	}
}

// TestWrongURL checks that the error for a URL says what is wrong with it, without its passwords.
func TestWrongURL(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"postgres://fleet:hunter2@h/db?sslmode=foo":                                "sslmode",
		"postgres://fleet:hunter2@h/db?sslrootcert=/none/here":                     "/none/here",
		"postgres://fleet:hunter2@h/db?connect_timeout=5s":                         "connect_timeout",
		"postgres://fleet:hunter2@h/db?pool_max_conns=0":                           "pool_max_conns",
		"postgres://fleet:hunter2@[::1/db":                                         "write it like",
		"postgres://h/db?sslcert=/none/here&sslkey=/none/here&sslpassword=hunter2": "/none/here",
	} {
		_, err := postgres.Open(t.Context(), url, postgres.Config{})
		require.ErrorContains(t, err, want, url)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

// TestWrongClock checks that a store shows the database's time although the clock of its machine is wrong.
func TestWrongClock(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	ahead.Store(int64(time.Hour))
	s := openAt(t, pgtest.URL(t), postgres.Config{Clock: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
	right := func() bool { return time.Until(s.Now()).Abs() < time.Minute }
	require.True(t, right())
	ahead.Store(-int64(time.Hour)) // as if the machine had slept
	require.False(t, right())
	_, err := s.RecordHeartbeat(t.Context(), fleet.Replica{Name: "one", Machine: "m1"}, true)
	require.NoError(t, err)
	require.True(t, right(), "a server must correct its clock when it says that it is alive")
}
