package record_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

// TestIncompleteCount checks the total if count has not examined all tasks, and compares it with complete counts. An incomplete
// total is a lower bound, and is at least the end of the window.
func TestIncompleteCount(t *testing.T) {
	t.Parallel()
	rows := func(limit int) ([]*fleet.Task, error) { return make([]*fleet.Task, limit), nil }
	for _, c := range []struct {
		offset, counted int
		more            bool
		want            int
	}{
		{0, 45, false, 45},
		{0, 45, true, 45},
		{40, 45, true, 50},
		{40, 45, false, 45},
		{0, 101, false, 100},
		{0, 101, true, 100},
	} {
		found, err := record.FindTasks(fleet.TaskWindow{Limit: 10, Offset: c.offset, Count: 100}, rows, func(limit int) (int, bool, error) {
			require.Equal(t, 101, limit)
			return c.counted, c.more, nil
		})
		require.NoError(t, err)
		require.Len(t, found.Tasks, 10)
		require.False(t, found.AtEnd)
		require.Equal(t, c.want, found.Total)
		require.Equal(t, c.more || c.counted > 100, found.More)
	}
}

// TestCountBeyondTheEnd checks that the total comes from count if the window begins after the last matching task, because such
// a window does not show how many tasks match.
func TestCountBeyondTheEnd(t *testing.T) {
	t.Parallel()
	none := func(int) ([]*fleet.Task, error) { return nil, nil }
	found, err := record.FindTasks(fleet.TaskWindow{Limit: 10, Offset: 40, Count: 100}, none, func(int) (int, bool, error) { return 20, true, nil })
	require.NoError(t, err)
	require.Equal(t, fleet.FoundTasks{Total: 20, More: true, AtEnd: true}, found)
}
