package reconcile_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service/servicetest"
	"fleet/internal/state"
)

// TestLongOutput checks that the event log has the beginning and the end of an output that is longer than the limit, and
// an event that says how much is left out.
func TestLongOutput(t *testing.T) {
	t.Parallel()
	h := servicetest.NewWithPapi(t, fake.Config{}, func(c *state.Config) { c.MaxOutput = 1000 })
	h.WaitTask(h.Start("papi", "repeat 10 "+strings.Repeat("x", 99)+"\necho FAIL: TestLogin\ndone").ID)
	texts := h.Events(fleet.EventTaskOutput)
	require.Len(t, texts, 11)
	require.Contains(t, texts[10], "FAIL: TestLogin")
	require.Len(t, h.Events(fleet.EventTaskStep), 1)

	task := h.Start("papi", "repeat 10 "+strings.Repeat("x", 200)+"\nwait gate\ndone")
	<-h.FakePlace.Reached("gate")
	h.WaitStored(func() bool { // the size of the output while the run continues
		more := h.TaskEvents(task.ID, fleet.EventTaskMoreOutput)
		return len(more) > 0 && more[len(more)-1] == "2021 bytes of output so far"
	})
	h.FakePlace.Release("gate")
	h.WaitTask(task.ID)

	h.WaitTask(h.Start("papi", "repeat 400 "+strings.Repeat("x", 1<<10)+"\necho FAIL: TestLogin\ndone").ID)
	texts = h.Events(fleet.EventTaskOutput)
	require.Contains(t, texts[len(texts)-1], "FAIL: TestLogin")
	steps := h.Events(fleet.EventTaskStep)
	require.Contains(t, steps[len(steps)-1], "bytes of output are left out here")
	all := len(strings.Join(texts, ""))
	require.Less(t, all, 300<<10)
	require.Greater(t, all, 250<<10)
}
