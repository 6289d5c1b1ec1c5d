package service_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service/servicetest"
)

// TestTreeSaysThatItIsCut checks that TaskTree returns a whole tree of 2000 tasks, and reports that a tree with one more task is cut.
func TestTreeSaysThatItIsCut(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	a := h.Create("papi")
	insert := func(ids ...string) {
		require.NoError(t, h.Store.Update(t.Context(), func(tx fleet.Tx) error {
			for i, id := range ids {
				task := &fleet.Task{ID: id, AgentUID: a.UID, AgentName: a.Name, Owner: a.Owner, Status: fleet.TaskCompleted, Source: fleet.SourceAgent, CreatedAt: time.Unix(int64(i), 0), EndedAt: time.Unix(int64(i), 0), CostUSD: 1}
				if id == "root" {
					task.Delegation = fleet.Delegation{Children: 1, Total: 1}
				} else {
					task.ParentID, task.RootID, task.Delegation = "root", "root", fleet.Delegation{Depth: 1, Detached: true}
				}
				if err := tx.Insert(task); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	ids := []string{"root"}
	for i := range 2000 {
		ids = append(ids, fmt.Sprintf("task-%d", i))
	}
	insert(ids[:2000]...)
	tree, cut, err := h.TaskTree(h.Context(), "root")
	require.NoError(t, err)
	require.Len(t, tree, 2000)
	require.False(t, cut)
	require.InDelta(t, 2000, tree[0].TreeCostUSD, 1e-9)
	insert(ids[2000])
	_, cut, err = h.TaskTree(h.Context(), "root")
	require.NoError(t, err)
	require.True(t, cut)
}
