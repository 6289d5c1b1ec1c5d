package runner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/waittest"
)

// TestPriority checks that an agent's programs, and those that they start, have a lower priority than the server.
func TestPriority(t *testing.T) {
	t.Parallel()
	x, ctx := newFixture(t)
	r := fleet.Run{TaskID: "task-1", Timeout: waittest.Limit, Prompt: `
		until [ "$(nice)" = 10 ]; do :; done # the script may start before its priority changes
		if [ -w /proc/self/autogroup ]; then until grep -q "nice 10" /proc/self/autogroup; do :; done; fi
		sh -c nice >times`}
	require.NoError(t, x.agent.Dispatch(ctx, r))
	o, err := x.follow(ctx, r)
	require.NoError(t, err)
	require.Equal(t, fleet.TaskCompleted, o.Status)
	require.Equal(t, "10\n", x.times())
}
