package app

import (
	"context"
	"crypto/tls"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/face/inbound"
	"fleet/internal/fleet"
	"fleet/internal/store/postgres/pgtest"
	"fleet/internal/waittest"
)

// openReplica opens the server with the name on the store.
func openReplica(t *testing.T, store, name, data string) (*App, error) {
	t.Helper()
	cfg := testConfig(t)
	cfg.Store, cfg.Replica, cfg.Data = store, name, data
	return Open(t.Context(), cfg, Options{CloseGrace: waittest.Limit})
}

// TestServerName starts servers with the same name on one store. A second server with another data directory must not
// start. A server must end if it did not renew its lease for so long that another server has taken its name.
func TestServerName(t *testing.T) {
	t.Parallel()
	url, data := pgtest.URL(t), t.TempDir()
	open := func(dir string) (*App, error) { return openReplica(t, url, "twin", dir) }
	first, err := open(data)
	require.NoError(t, err)
	endReason, err := first.shareOnce(t.Context())
	require.NoError(t, err)
	require.NoError(t, endReason)
	_, err = open(t.TempDir())
	require.ErrorContains(t, err, "set replica to a name of its own")
	require.NoError(t, first.Close())
	again, err := open(data)
	require.NoError(t, err, "a server on the same data must get its name again")
	defer func() { require.NoError(t, again.Close()) }()

	require.NoError(t, again.store.ReleaseLease(t.Context(), fleet.ReplicaLeasePrefix+"twin", again.machine)) // as if the lease had expired
	second, err := open(t.TempDir())
	require.NoError(t, err)
	defer func() { require.NoError(t, second.Close()) }()
	endReason, err = again.shareOnce(t.Context())
	require.NoError(t, err)
	require.ErrorContains(t, endReason, "another server has taken the name")
	ended := make(chan error, 1)
	defer again.startSharing(func(err error) { ended <- err })()
	select {
	case err := <-ended:
		require.ErrorContains(t, err, "this one ends")
	case <-time.After(waittest.Limit):
		t.Fatal("the server does not end after it has lost its name")
	}
	endReason, err = second.shareOnce(t.Context())
	require.NoError(t, err)
	require.NoError(t, endReason)
}

// TestEmbeddedFleetKeepsItsName checks that a fleet without listeners closes if it has lost its name, and that it releases its name when it
// closes.
func TestEmbeddedFleetKeepsItsName(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	first, err := openReplica(t, url, "twin", t.TempDir())
	require.NoError(t, err)
	require.NoError(t, first.store.ReleaseLease(t.Context(), fleet.ReplicaLeasePrefix+"twin", first.machine)) // as if the lease had expired
	second, err := openReplica(t, url, "twin", t.TempDir())
	require.NoError(t, err)
	closeFirst := first.startEmbedded()
	<-first.guard.closed.Done()
	require.ErrorContains(t, closeFirst(), "another server has taken the name")

	require.NoError(t, second.startEmbedded()())
	third, err := openReplica(t, url, "twin", t.TempDir())
	require.NoError(t, err, "the name must be free at once")
	defer func() { require.NoError(t, third.Close()) }()
}

// TestPeerLimits checks that a connection to the peer address is limited during the TLS handshake.
func TestPeerLimits(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Store = pgtest.URL(t)
	a, err := Open(t.Context(), cfg, Options{InboundLimits: inbound.Limits{Bytes: 100}})
	require.NoError(t, err)
	s, err := a.Listen("test")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	_, err = tls.Dial("tcp", a.peers.Address(), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // a stranger
	require.Error(t, err, "the connection must be closed")
	stop()
	require.NoError(t, <-ended)
}

// TestForgottenServer makes a server forget another server whose lease has expired, and then starts the forgotten server
// again.
func TestForgottenServer(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	data := t.TempDir()
	lost, err := openReplica(t, url, "lost", data)
	require.NoError(t, err)
	closed := false
	defer func() {
		if !closed {
			require.NoError(t, lost.Close())
		}
	}()
	other, err := openReplica(t, url, "other", t.TempDir())
	require.NoError(t, err)
	defer func() { require.NoError(t, other.Close()) }()
	ctx := fleet.WithPrincipal(t.Context(), fleet.Principal{Name: "root", Kind: fleet.KindHuman, Scope: fleet.ScopeAdmin})
	renew := func(a *App) { // leases would expire on a slow machine
		endReason, err := a.shareOnce(t.Context())
		require.NoError(t, errors.Join(err, endReason))
	}
	states := func() map[string]bool {
		renew(other)
		all, err := other.service.ListReplicas(ctx)
		require.NoError(t, err)
		running := map[string]bool{}
		for _, r := range all {
			running[r.Name] = r.Running
			require.Equal(t, r.Name == "other", r.Answers)
			require.Equal(t, Version(), r.Version)
			require.False(t, r.HeartbeatAt.Before(r.StartedAt))
		}
		return running
	}
	renew(lost)
	require.Equal(t, map[string]bool{"lost": true, "other": true}, states())
	_, err = other.service.ForgetReplica(ctx, "lost")
	require.Equal(t, fleet.ReasonReplicaRunning, fleet.ReasonOf(err))

	now := time.Now()
	a := &fleet.Agent{UID: "u1", Name: "papi", Owner: "alice", Place: "local@lost", WorkspaceID: "w1", State: fleet.StateRunning, Desired: fleet.DesiredRunning, CreatedAt: now, UpdatedAt: now}
	task := &fleet.Task{ID: "t1", AgentUID: "u1", AgentName: "papi", Owner: "alice", Source: fleet.SourceHuman, Status: fleet.TaskRunning, CreatedAt: now, StartedAt: now}
	require.NoError(t, lost.store.Update(t.Context(), func(tx fleet.Tx) error {
		return errors.Join(tx.Insert(a), tx.Insert(task), tx.Append(task.Event(fleet.EventTaskStarted, now, "")))
	}))
	_, err = lost.store.AcquireLease(t.Context(), "agent/u1", "a worker", time.Hour)
	require.NoError(t, err)

	require.NoError(t, lost.store.ReleaseLease(t.Context(), fleet.ReplicaLeasePrefix+"lost", lost.machine)) // as if the lease had expired
	_, err = other.service.ForgetReplica(ctx, "lost")
	require.Equal(t, fleet.ReasonReplicaRunning, fleet.ReasonOf(err), "a server whose worker has an agent's lease counts as running")
	require.NoError(t, lost.store.ReleaseLease(t.Context(), "agent/u1", "a worker"))
	require.Equal(t, map[string]bool{"lost": false, "other": true}, states())
	gone, err := other.service.ForgetReplica(ctx, "lost")
	require.NoError(t, err)
	require.Len(t, gone.Agents, 1)
	require.Equal(t, 1, gone.Tasks)
	require.NoError(t, other.store.View(t.Context(), func(tx fleet.ReadTx) error {
		task, err := tx.Task("t1")
		require.NoError(t, err)
		require.Equal(t, fleet.TaskFailed, task.Status)
		require.Contains(t, task.Reason, "on the machine of the server lost, which was forgotten")
		a, err := tx.Agent("u1")
		require.Equal(t, fleet.StateDeleted, a.State)
		return err
	}))
	require.Equal(t, map[string]bool{"other": true}, states())
	endReason, err := lost.shareOnce(t.Context())
	require.NoError(t, err)
	require.ErrorContains(t, endReason, "was forgotten", "a forgotten server that was only paused must end")
	require.NoError(t, lost.store.ReleaseLease(t.Context(), fleet.ReplicaLeasePrefix+"lost", lost.machine))
	closed = true
	require.NoError(t, lost.Close()) // it holds the lock of its directory
	_, err = openReplica(t, url, "lost", data)
	require.ErrorContains(t, err, "was forgotten")
	fresh, err := openReplica(t, url, "lost", t.TempDir())
	require.NoError(t, err, "another machine must be able to use the name")
	require.NoError(t, fresh.Close())
}
