package service

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// TestForgottenWhileLoading checks that an agent does not get into the cache if it is forgotten after it was read from
// the store and before it is put into the cache.
func TestForgottenWhileLoading(t *testing.T) {
	t.Parallel()
	read := &fleet.AgentView{
		Agent: fleet.Agent{UID: "a", OneTask: true, DeletedAt: time.Now()},
		Task:  &fleet.Task{ID: "t", Status: fleet.TaskCompleted},
	}
	var e endedAgents
	l := e.begin([]string{"a", "b"})
	e.forget("a")
	e.put(l, read)
	require.Nil(t, e.get("a"))
	again := e.begin([]string{"a"})
	e.end(l)
	e.put(again, read)
	require.NotNil(t, e.get("a"), "the end of an older load must not end this one")
	e.end(again)
	require.Empty(t, e.loads)
}
