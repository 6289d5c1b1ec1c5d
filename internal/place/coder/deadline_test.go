package coder_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/coder/v2/codersdk"
	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// TestDeadline checks that a run extends the deadline of its workspace, and that it warns if the template does not allow that.
func TestDeadline(t *testing.T) {
	for name, maxDeadlineIn := range map[string]time.Duration{"extended": 0, "to the latest allowed time": 50 * time.Minute, "not at all": 10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			x := newFakeCoder(t)
			s := x.addRunner()
			now := time.Now()
			build := &x.ws.LatestBuild
			build.Deadline = codersdk.NewNullTime(now.Add(10*time.Minute), true)
			if maxDeadlineIn > 0 {
				build.MaxDeadline = codersdk.NewNullTime(now.Add(maxDeadlineIn), true)
			}
			requestedDeadlines := make(chan time.Time, 1)
			runnerFault := x.fault
			x.fault = func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.HasSuffix(r.URL.Path, "/extend") {
					return runnerFault(w, r)
				}
				var req codersdk.PutExtendWorkspaceRequest
				_ = json.NewDecoder(r.Body).Decode(&req)
				x.update(func() { x.ws.LatestBuild.Deadline = codersdk.NewNullTime(req.Deadline, true) })
				select {
				case requestedDeadlines <- req.Deadline:
				default:
				}
				return writeJSON(w, struct{}{})
			}
			var warnings []string
			warning := make(chan struct{})
			r := x.newRun("Say it.")
			done := make(chan error)
			go func() {
				_, err := x.newPlace().Connect(x.agent()).Follow(t.Context(), r, "", func(out fleet.Output) error {
					if out.IsStep {
						warnings = append(warnings, string(out.Data))
						close(warning)
					}
					return nil
				})
				done <- err
			}()
			if name == "not at all" {
				<-warning
			} else {
				want := now.Add(90 * time.Minute)
				if maxDeadlineIn > 0 {
					want = now.Add(maxDeadlineIn)
				}
				require.WithinDuration(t, want, <-requestedDeadlines, time.Minute)
			}
			require.NoError(t, s.Send(t.Context(), r, "", "done"))
			require.NoError(t, <-done)
			if name == "not at all" {
				require.Len(t, warnings, 1)
				require.Contains(t, warnings[0], `"type":"warning"`)
				require.Contains(t, warnings[0], "the latest time that its template allows")
			} else {
				require.Empty(t, warnings)
			}
		})
	}
}
