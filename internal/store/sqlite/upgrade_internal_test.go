package sqlite

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// TestSumsOfAnUpgrade checks that an upgrade computes the sums and counts for the existing tasks and agents.
func TestSumsOfAnUpgrade(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "fleet.db")
	s, err := Open(t.Context(), path, Config{})
	require.NoError(t, err)
	require.NoError(t, s.Update(t.Context(), func(tx fleet.Tx) error {
		at := time.Unix(1_700_000_000, 0)
		for i := range 10 {
			a := &fleet.Agent{UID: fmt.Sprint("u", i), Name: fmt.Sprint("a", i), Owner: fmt.Sprint("o", i%3), Project: "p", State: fleet.StateRunning, Desired: fleet.DesiredRunning, CreatedAt: at, UpdatedAt: at}
			require.NoError(t, tx.InsertAgent(a))
			task := &fleet.Task{ID: fmt.Sprint("t", i), AgentUID: a.UID, AgentName: a.Name, Owner: a.Owner, Source: fleet.SourceHuman, Status: fleet.TaskCompleted, CreatedAt: at.Add(time.Duration(i) * 10 * time.Hour), CostUSD: 0.1}
			if i == 9 {
				task.Status = fleet.TaskRunning
			}
			require.NoError(t, tx.InsertTask(task))
		}
		return nil
	}))
	usage := func() (rows []fleet.UsageRow) {
		require.NoError(t, s.View(t.Context(), func(tx fleet.ReadTx) (err error) {
			rows, _, err = tx.Usage(fleet.TaskFilter{}, fleet.UsageByDay, 100)
			return err
		}))
		return rows
	}
	owned := func() (h fleet.Holdings) {
		require.NoError(t, s.View(t.Context(), func(tx fleet.ReadTx) (err error) {
			h, err = tx.Holdings("o0", fleet.Limits{})
			return err
		}))
		return h
	}
	before, held := usage(), owned()
	require.Len(t, before, 5)
	require.Equal(t, 4, held.AllAgents())
	require.NoError(t, s.Close())

	s = &Store{path: path, cfg: Config{BusyTimeout: time.Second}}
	s.file, err = s.makeFile(t.Context())
	require.NoError(t, err)
	db, err := s.db(path, map[string][]string{}, 1)
	require.NoError(t, err)
	p, err := provider(db)
	require.NoError(t, err)
	_, err = p.DownTo(t.Context(), 33)
	require.NoError(t, err)
	require.NoError(t, s.closePools())
	s, err = Open(t.Context(), path, Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	require.Equal(t, before, usage())
	require.Equal(t, held, owned())
}
