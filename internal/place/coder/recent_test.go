package coder_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/coder/v2/codersdk"

	"fleet/internal/fleet"
)

// TestRequestsOfTask counts the requests for a task: Coder passes on one for its beginning, one for its output and one for its
// changes. Fleet must still notice that a workspace was stopped after the last listing.
func TestRequestsOfTask(t *testing.T) {
	t.Parallel()
	x := newFrozenCoder(t)
	s := x.addRunner()
	p := x.newPlace()
	var requests atomic.Int64
	x.mu.Lock()
	next := x.fault
	x.fault = func(w http.ResponseWriter, r *http.Request) bool {
		requests.Add(1)
		return next != nil && next(w, r)
	}
	x.mu.Unlock()
	_, err := p.Inspect(t.Context(), x.agent())
	x.NoError(err)
	_, err = p.List(t.Context())
	x.NoError(err)
	first := x.newRun("first")
	s.outcome(first.TaskID) <- fleet.Outcome{Status: fleet.TaskCompleted}
	runner := p.Connect(x.agent())
	x.NoError(runner.Dispatch(t.Context(), first)) // the first call to a runner requests its version
	requests.Store(0)
	r := x.newRun("work")
	s.outcome(r.TaskID) <- fleet.Outcome{Status: fleet.TaskCompleted}
	x.NoError(runner.Dispatch(t.Context(), r))
	o, err := runner.Follow(t.Context(), r, "", func(fleet.Output) error { return nil })
	x.NoError(err)
	x.Equal(fleet.TaskCompleted, o.Status)
	_, err = runner.Changes(t.Context(), r)
	x.NoError(err)
	x.Equal(int64(3), requests.Load())

	x.clockOffset.Add(int64(time.Minute))
	requests.Store(0)
	_, err = runner.Changes(t.Context(), r)
	x.NoError(err)
	x.Equal(int64(2), requests.Load(), "a workspace that Coder showed a minute ago must be requested again")

	x.update(func() {
		x.ws.LatestBuild.Status, x.ws.LatestBuild.Transition = codersdk.WorkspaceStatusStopped, codersdk.WorkspaceTransitionStop
		x.ws.LatestBuild.Resources = nil
		x.fault = refuseRunner(http.StatusNotFound)
	})
	requireError(x.T, runner.Dispatch(t.Context(), x.newRun("more")), fleet.ReasonAgentOffline, "stopped")
}
