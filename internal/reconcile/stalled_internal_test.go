package reconcile

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/state"
)

// TestAskingWhileItRetries checks that the worker pauses between its checks of a run that waits for an answer and repeats a request to
// its model, for example in a subagent.
func TestAskingWhileItRetries(t *testing.T) {
	t.Parallel()
	now := time.Now()
	w := &worker{Reconciler: &Reconciler{cfg: state.Config{StallTimeout: time.Hour, Now: func() time.Time { return now }}}}
	w.progress.begin("t1", now)
	w.progress.observeOutput(fleet.Output{Data: []byte(`{"type":"retry","name":"again","retry":{"attempt":1,"status":529}}`)}, now)
	now = now.Add(time.Hour)
	next, err := w.updateStall(t.Context(), &fleet.Task{ID: "t1", OpenQuestions: 1})
	require.NoError(t, err)
	require.Equal(t, maxRetrying, next)
}
