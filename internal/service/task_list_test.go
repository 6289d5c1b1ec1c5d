package service_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
	"fleet/internal/state"
)

// TestTasksBeyondTheCount checks that pages with cursors return all tasks, even if there are more than state.Config.MaxCounted.
func TestTasksBeyondTheCount(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, func(c *state.Config) { c.MaxCounted = 30 })
	a := h.Create("papi")
	begun := time.Unix(1_700_000_000, 0).UTC()
	add := func(from, to int) {
		require.NoError(t, h.Store.Update(t.Context(), func(tx fleet.Tx) error {
			for i := from; i < to; i++ {
				if err := tx.Insert(&fleet.Task{
					ID: fmt.Sprintf("task-%02d", i), AgentUID: a.UID, AgentName: a.Name, Owner: a.Owner, Source: fleet.SourceHuman, Status: fleet.TaskCompleted,
					Description: "fix the login", CreatedAt: begun.Add(time.Duration(i) * time.Second), EndedAt: begun,
				}); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	add(0, 45)
	for text, counted := range map[string]int{"": 30, "login": 3} {
		r := service.ListTasksRequest{Text: text, PageRequest: fleet.PageRequest{PageSize: new(10)}}
		for next := 44; next >= 0; {
			got, err := h.ListTasks(h.Context(), r)
			require.NoError(t, err)
			require.Equal(t, next >= 10, got.Next != "")
			require.Equal(t, got.Next != "", got.More)
			if got.More {
				require.Equal(t, []int{counted, (counted + 9) / 10}, []int{got.Total, got.Pages})
			}
			for _, task := range got.Tasks {
				require.Equal(t, fmt.Sprintf("task-%02d", next), task.ID)
				next--
			}
			r.Cursor = got.Next
		}
	}
	got, err := h.ListTasks(h.Context(), service.ListTasksRequest{PageRequest: fleet.PageRequest{Page: new(4), PageSize: new(10)}})
	require.NoError(t, err)
	require.Equal(t, "40.task-05", got.Next)
	add(45, 50) // newer tasks must not change the pages after the cursor
	got, err = h.ListTasks(h.Context(), service.ListTasksRequest{PageRequest: fleet.PageRequest{Cursor: got.Next, PageSize: new(10)}})
	require.NoError(t, err)
	require.Len(t, got.Tasks, 5)
	require.Equal(t, "task-04", got.Tasks[0].ID)
	require.Equal(t, 5, got.Page)

	_, err = h.ListTasks(h.Context(), service.ListTasksRequest{PageRequest: fleet.PageRequest{Cursor: "x.task-04"}})
	require.Equal(t, fleet.ReasonInvalidArgument, fleet.ReasonOf(err))
}
