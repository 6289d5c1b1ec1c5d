package postgres_test

import (
	"context"
	"slices"
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
	_, err = s.AcquireLease(t.Context(), "k", "me", time.Hour)
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
	url := patientURL(t)
	s, other := openAt(t, url, postgres.Config{}), openAt(t, url, postgres.Config{})
	a := &fleet.Agent{UID: "u1", Name: "a", State: fleet.StateRunning, Desired: fleet.DesiredRunning}
	require.NoError(t, s.Update(t.Context(), func(tx fleet.Tx) error { return tx.Insert(a) }))
	epoch, err := s.AcquireLease(t.Context(), "k", "one", time.Hour)
	require.NoError(t, err)
	touch := func(tx fleet.Tx) error {
		a, err := tx.Agent("u1")
		if err != nil {
			return err
		}
		return tx.Update(a)
	}
	conn, updateErr := dial(t, url), make(chan error, 1)
	require.NoError(t, other.Update(t.Context(), func(tx fleet.Tx) error {
		if err := touch(tx); err != nil {
			return err
		}
		_, err := tx.Agent("u1") // sends the write
		require.NoError(t, err)
		go func() {
			updateErr <- s.Update(fleet.WithLease(t.Context(), fleet.Lease{Key: "k", Epoch: epoch}), touch)
		}()
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
	require.NoError(t, <-updateErr)
}

// TestWrongClock checks that a store shows the database's time although the clock of its machine is wrong.
func TestWrongClock(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	ahead.Store(int64(time.Hour))
	s := openAt(t, pgtest.URL(t), postgres.Config{Clock: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
	isRight := func() bool { return time.Until(s.Now()).Abs() < time.Minute }
	require.True(t, isRight())
	ahead.Store(-int64(time.Hour)) // as if the machine had slept
	require.False(t, isRight())
	_, err := s.RecordHeartbeat(t.Context(), fleet.Replica{Name: "one", Machine: "m1"}, true)
	require.NoError(t, err)
	require.True(t, isRight(), "a server must correct its clock when it says that it is alive")
}
