package sqlite_test

import (
	"database/sql"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/store/sqlite"
	"fleet/internal/waittest"
)

// TestFullDisk checks that a store on a full disk accepts writes that end or remove things, and refuses writes that add
// things.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	var free atomic.Uint64
	const total = 1 << 30
	free.Store(total)
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "fleet.db"), sqlite.Config{
		DiskSpace: func(string) (uint64, uint64, error) { return free.Load(), total, nil },
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	now := time.Now().UTC()
	agent := func(uid string) *fleet.Agent {
		return &fleet.Agent{UID: uid, Name: uid, Owner: "alice", State: fleet.StateRunning, Desired: fleet.DesiredRunning, CreatedAt: now, UpdatedAt: now}
	}
	task := &fleet.Task{ID: "t", AgentUID: "papi", AgentName: "papi", Owner: "alice", Status: fleet.TaskRunning, Source: fleet.SourceHuman, CreatedAt: now, StartedAt: now}
	update := func(fn func(tx fleet.Tx) error) error { return s.Update(t.Context(), fn) }
	require.NoError(t, update(func(tx fleet.Tx) error {
		if err := tx.Insert(agent("papi")); err != nil {
			return err
		}
		return tx.Insert(task)
	}))
	_, full := s.Full()
	require.False(t, full)

	free.Store(0)
	waittest.Until(t, "a full disk gives no signal", func() bool { _, full := s.Full(); return full })
	since, _ := s.Full()
	require.WithinDuration(t, time.Now(), since, time.Minute)
	require.ErrorIs(t, update(func(tx fleet.Tx) error { return tx.Insert(agent("sony")) }), fleet.ErrStoreFull)
	require.NoError(t, update(func(tx fleet.Tx) error { // the transaction continues without the refused writes
		require.ErrorIs(t, tx.Put("t", fleet.Payload("much")), fleet.ErrStoreFull)
		require.ErrorIs(t, tx.Append(&fleet.Event{Time: now, Type: fleet.EventTaskOutput, AgentUID: "papi", TaskID: "t", Text: "much"}), fleet.ErrStoreFull)
		task.Status, task.EndedAt = fleet.TaskFailed, now
		if err := tx.Update(task); err != nil {
			return err
		}
		return tx.Append(&fleet.Event{Time: now, Type: fleet.EventTaskEnded, AgentUID: "papi", TaskID: "t", Text: "exit code 1"})
	}))
	require.NoError(t, s.View(t.Context(), func(tx fleet.ReadTx) error {
		got, err := tx.Task("t")
		require.Equal(t, fleet.TaskFailed, got.Status)
		return err
	}))

	free.Store(total)
	waittest.Until(t, "a disk that has space again gives no signal", func() bool { _, full := s.Full(); return !full })
	require.NoError(t, update(func(tx fleet.Tx) error { return tx.Insert(agent("sony")) }))
}

// TestFileThatCannotGrow fills a file that cannot grow beyond a limit. The write that needs more space must fail with
// ErrStoreFull, and must not damage the file.
func TestFileThatCannotGrow(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "fleet.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Config{MaxPages: 200})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	var n int
	for err == nil && n < 1000 {
		n++
		err = s.Update(t.Context(), func(tx fleet.Tx) error {
			return tx.Append(&fleet.Event{Time: time.Now(), Type: fleet.EventTaskOutput, AgentUID: "papi", TaskID: "t", Text: string(make([]byte, 8000))})
		})
	}
	require.ErrorIs(t, err, fleet.ErrStoreFull)
	require.Equal(t, fleet.ReasonLimitReached, fleet.ReasonOf(err))
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer func() { _ = db.Close() }()
	var check string
	require.NoError(t, db.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&check))
	require.Equal(t, "ok", check)
}
