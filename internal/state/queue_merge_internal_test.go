package state

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// TestQueueMerge checks that merging changes step by step gives the same queue as reading all tasks at once. Lists that were
// returned earlier must not change.
func TestQueueMerge(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // repeatable
	start := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	current := map[string]*fleet.QueuedTask{}
	q := &Queue{}
	for step := range 300 {
		changed := map[string]bool{}
		var merged []*fleet.QueuedTask
		for range r.IntN(4) {
			id := fmt.Sprint(r.IntN(100))
			if r.IntN(3) > 0 {
				id = fmt.Sprint(1000 + 10*step + r.IntN(10)) // a new task
			}
			if changed[id] {
				continue
			}
			changed[id] = true
			delete(current, id)
			if r.IntN(4) > 0 {
				task := &fleet.QueuedTask{Task: fleet.Task{ID: id, Status: fleet.TaskPending, CreatedAt: start.Add(time.Duration(step) * time.Second)}}
				task.Entry.By = fmt.Sprint("p", r.IntN(3))
				if r.IntN(4) == 0 {
					task.Status = fleet.TaskRunning
				}
				if r.IntN(5) == 0 {
					task.CreatedAt = start
				}
				current[id], merged = task, append(merged, task)
			}
		}
		before, copied := q.tasks, slices.Clone(q.tasks)
		q.merge(merged, changed)
		require.Equal(t, copied, before)
		whole := &Queue{}
		var all []*fleet.QueuedTask
		for _, task := range current {
			all = append(all, task)
		}
		whole.merge(all, nil)
		require.Equal(t, whole.tasks, q.tasks)
		for _, by := range []string{"p0", "p1", "p2"} {
			require.Equal(t, whole.pendingBy[by], q.pendingBy[by])
		}
	}
}
