package browser

import (
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
)

// TestReconnect restarts the server while the page follows a task. The page must continue without a reload, and must
// show all output.
func TestReconnect(t *testing.T) {
	t.Parallel()
	s := serve(t, useFixedAddresses(t))
	s.createAgent(t, "papi")
	id := s.startTask(t, "papi", `echo begun; while ! [ -e go ]; do sleep 0.1; done; seq 1 50; echo "the end"`)
	b := openAt(t, s.home, "/tasks/"+id)
	b.waitForText("begun")
	eval[bool](b, `window.same = true`)
	b.allowErrors("ERR_")
	b.allowErrors("Failed to load")
	s.stop()
	b.waitForText("No connection to the server")
	s.start(t)
	b.waitUntilGone("No connection to the server")
	s.createFile(t, "papi", "go")
	b.waitForText("the end")
	b.waitForText("completed")
	require.True(t, eval[bool](b, `window.same`))
}

// TestOldCursor shows the fleet of a server whose event log does not contain the page's cursor, as happens after a
// restore.
func TestOldCursor(t *testing.T) {
	t.Parallel()
	s := serve(t, useFixedAddresses(t))
	for range 3 {
		s.createAgent(t, "papi")
		_, err := s.api.DeleteAgent(t.Context(), &fleetv1.DeleteAgentRequest{AgentName: "papi"})
		require.NoError(t, err)
	}
	s.createAgent(t, "before")
	b := openAt(t, s.home, "/")
	b.allowErrors("ERR_")
	b.allowErrors("Failed to load")
	b.waitForText("before")
	s.stop()
	s.cfg.Data = t.TempDir()
	s.start(t)
	b.waitUntilGone("No connection to the server")
	b.waitUntilGone("before")
	s.createAgent(t, "after")
	b.waitForText("after")
}
