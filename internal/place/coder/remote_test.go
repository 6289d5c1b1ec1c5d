package coder_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/coder/v2/codersdk"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/runner/remote"
	"fleet/internal/waittest"
)

// scriptedRunner is a runner whose runs print wideText, and end with the first outcome that is sent to their channel in ends.
type scriptedRunner struct {
	fleet.Runner
	mu      sync.Mutex
	runs    []fleet.Run
	cursors []string
	ends    map[string]chan fleet.Outcome // by task; each channel holds the outcome of the task
}

func (s *scriptedRunner) Connect(fleet.Agent) fleet.Runner { return s }

func (s *scriptedRunner) Dispatch(_ context.Context, r fleet.Run) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs = append(s.runs, r)
	return nil
}

// end returns the channel with the outcome of the run.
func (s *scriptedRunner) end(task string) chan fleet.Outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ends[task] == nil {
		s.ends[task] = make(chan fleet.Outcome, 1)
	}
	return s.ends[task]
}

func (s *scriptedRunner) Follow(ctx context.Context, r fleet.Run, cursor string, sink func(fleet.Output) error) (fleet.Outcome, error) {
	s.mu.Lock()
	s.cursors = append(s.cursors, cursor)
	s.mu.Unlock()
	if cursor == "" {
		if err := sink(fleet.Output{Cursor: "17", Text: wideText}); err != nil {
			return fleet.Outcome{}, err
		}
	}
	end := s.end(r.TaskID)
	select {
	case o := <-end:
		end <- o // puts the outcome back for a later Follow
		return o, nil
	case <-ctx.Done():
		return fleet.Outcome{}, ctx.Err()
	}
}

func (s *scriptedRunner) Interrupt(_ context.Context, r fleet.Run, _ bool) error {
	s.end(r.TaskID) <- fleet.Outcome{Status: fleet.TaskStopped}
	return nil
}

func (s *scriptedRunner) Send(_ context.Context, r fleet.Run, _, text string) error {
	s.end(r.TaskID) <- fleet.Outcome{Status: fleet.TaskCompleted, Summary: text, Payload: []byte(wideText)}
	return nil
}

func (s *scriptedRunner) Answer(_ context.Context, r fleet.Run, q fleet.Question) error {
	s.end(r.TaskID) <- fleet.Outcome{Status: fleet.TaskCompleted, Summary: q.Answer}
	return nil
}

func (s *scriptedRunner) Changes(_ context.Context, r fleet.Run) (*fleet.Changes, error) {
	return &fleet.Changes{Base: "b", Commit: r.TaskID}, nil
}

func (s *scriptedRunner) Patch(_ context.Context, c fleet.Changes, path string, offset int64, _ int) ([]byte, bool, error) {
	return []byte(c.Commit + path)[offset:], true, nil
}

func (s *scriptedRunner) Check(_ context.Context, _ fleet.Run, c fleet.Check) (fleet.CheckResult, error) {
	return fleet.CheckResult{Command: c.Command, Status: fleet.CheckPassed}, nil
}

func (s *scriptedRunner) Bundle(_ context.Context, w io.Writer) error {
	_, err := io.WriteString(w, wideText)
	return err
}

// wideText is a text that a terminal with 80 columns would change.
var wideText = "| a |\n|---|\n```go\nfmt.Println(\"hi\")\n```\n" + strings.Repeat("long ", 40) + "\n"

const runnerPath = "/@fleet/agent-papi.main/apps/fleet-runner"

// withRunner adds a fleet-runner to the workspace, in addition to AgentAPI.
func (x *fakeCoder) withRunner() *scriptedRunner {
	public, key, err := ed25519.GenerateKey(nil)
	x.NoError(err)
	x.key = key
	s := &scriptedRunner{ends: map[string]chan fleet.Outcome{}}
	server, err := remote.NewServer(s, remote.ServerConfig{Key: public})
	x.NoError(err)
	app := http.StripPrefix(runnerPath, server.Handler())
	apps := &x.ws.LatestBuild.Resources[0].Agents[0].Apps
	*apps = append(*apps, codersdk.WorkspaceApp{Slug: "fleet-runner", Health: codersdk.WorkspaceAppHealthHealthy})
	x.fault = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.URL.Path, runnerPath) {
			return false
		}
		app.ServeHTTP(w, r)
		return true
	}
	return s
}

// TestRunner checks that a workspace's fleet-runner is used, and not its AgentAPI.
func TestRunner(t *testing.T) {
	x := newFakeCoder(t)
	s := x.withRunner()
	p := x.newPlace()
	ws, err := p.Inspect(t.Context(), x.agent())
	x.NoError(err)
	x.Equal(fleet.StateRunning, ws.State, ws.Reason)
	r := x.run("Say it.")
	x.NoError(p.Connect(x.agent()).Dispatch(t.Context(), r))
	x.Len(s.runs, 1)
	x.Equal("Say it.", s.runs[0].Prompt)

	ctx, cancel := context.WithCancel(t.Context())
	var outputs []fleet.Output
	_, err = p.Connect(x.agent()).Follow(ctx, r, "", func(out fleet.Output) error {
		outputs = append(outputs, out)
		cancel()
		return nil
	})
	x.ErrorIs(err, context.Canceled)
	x.Equal([]fleet.Output{{Cursor: "r17", Text: wideText}}, outputs)

	p.ForgetRuns() // as if another process took over
	x.NoError(p.Connect(x.agent()).Send(t.Context(), r, "message-1", "Raw\x1b text."))
	o, err := p.Connect(x.agent()).Follow(t.Context(), r, "r17", func(fleet.Output) error { return nil })
	x.NoError(err)
	x.Equal(fleet.TaskCompleted, o.Status)
	x.Equal("Raw\x1b text.", o.Summary)
	x.Equal(wideText, string(o.Payload))
	x.Equal("17", s.cursors[len(s.cursors)-1])

	next := x.run("Again.")
	x.NoError(p.Connect(x.agent()).Interrupt(t.Context(), next, true))
	o, err = p.Connect(x.agent()).Follow(t.Context(), next, "", func(fleet.Output) error { return nil })
	x.NoError(err)
	x.Equal(fleet.TaskStopped, o.Status)
	for _, request := range []string{"GET status", "GET messages", "POST message", "GET events"} {
		x.Zero(x.count(request), "%s: no request may be sent to AgentAPI", request)
	}
}

// TestRunnerReportsWork checks the calls that read an agent's work from fleet-runner, and their errors after the
// workspace was stopped or deleted.
func TestRunnerReportsWork(t *testing.T) {
	x := newFakeCoder(t)
	x.withRunner()
	p := x.newPlace()
	a, r := p.Connect(x.agent()), x.run("Say it.")
	r.TaskID = "task-1"
	c, err := a.Changes(t.Context(), r)
	x.NoError(err)
	x.Equal(&fleet.Changes{Base: "b", Commit: "task-1"}, c)
	text, more, err := a.Patch(t.Context(), *c, "/file", 5, 100)
	x.NoError(err)
	x.True(more)
	x.Equal("1/file", string(text))
	res, err := a.Check(t.Context(), r, fleet.Check{ID: "1", Command: "true", Timeout: waittest.Limit})
	x.NoError(err)
	x.Equal(fleet.CheckResult{Command: "true", Status: fleet.CheckPassed}, res)
	var bundle strings.Builder
	x.NoError(a.Bundle(t.Context(), &bundle))
	x.Equal(wideText, bundle.String())
	x.NoError(a.Answer(t.Context(), r, fleet.Question{ID: "task-1-1", Answer: "tabs"}))
	o, err := a.Follow(t.Context(), r, "r17", func(fleet.Output) error { return nil })
	x.NoError(err)
	x.Equal("tabs", o.Summary)

	x.update(func() { x.ws.LatestBuild.Status = codersdk.WorkspaceStatusStopped })
	_, _, err = a.Patch(t.Context(), *c, "", 0, 100)
	requireReason(x.T, err, fleet.ReasonAgentOffline)
	x.update(func() { x.deleted = true })
	_, _, err = a.Patch(t.Context(), *c, "", 0, 100)
	requireReason(x.T, err, fleet.ReasonChangesNotFound)
}

// TestScreenLimitations checks the errors of calls that an agent with only AgentAPI does not support.
func TestScreenLimitations(t *testing.T) {
	x := newFakeCoder(t)
	a, r := x.newPlace().Connect(x.agent()), x.run("Say it.")
	_, err := a.Changes(t.Context(), r)
	requireReason(x.T, err, fleet.ReasonUnimplemented)
	_, _, err = a.Patch(t.Context(), fleet.Changes{}, "", 0, 100)
	requireReason(x.T, err, fleet.ReasonUnimplemented)
	_, err = a.Check(t.Context(), r, fleet.Check{ID: "1", Command: "true"})
	requireReason(x.T, err, fleet.ReasonUnimplemented)
	x.Equal(fleet.ReasonUnimplemented, fleet.ReasonOf(a.Bundle(t.Context(), io.Discard)))
	x.Equal(fleet.ReasonUnimplemented, fleet.ReasonOf(a.Answer(t.Context(), r, fleet.Question{})))
}

// TestPathAppsDisabled checks that the error for a Coder without path apps says what to do.
func TestPathAppsDisabled(t *testing.T) {
	x := newFakeCoder(t)
	x.withRunner()
	x.fault = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.URL.Path, runnerPath) {
			writePage(w, http.StatusForbidden)
			return true
		}
		return false
	}
	p := x.newPlace()
	err := p.Connect(x.agent()).Dispatch(t.Context(), x.run("Say it."))
	requireReason(x.T, err, fleet.ReasonPermissionDenied)
	x.Contains(err.Error(), "--disable-path-apps")
	_, err = p.Connect(x.agent()).Follow(t.Context(), x.run("Say it."), "", func(fleet.Output) error { return nil })
	x.Contains(err.Error(), "--disable-path-apps")
}

// TestRunnerGone checks that a run ends when its workspace is stopped.
func TestRunnerGone(t *testing.T) {
	x := newFakeCoder(t)
	x.withRunner()
	p := x.newPlace()
	o, err := p.Connect(x.agent()).Follow(t.Context(), x.run("Say it."), "", func(fleet.Output) error {
		x.update(func() {
			x.ws.LatestBuild.Status = codersdk.WorkspaceStatusStopped
			x.fault = func(w http.ResponseWriter, r *http.Request) bool {
				if strings.HasPrefix(r.URL.Path, runnerPath) {
					writePage(w, http.StatusNotFound)
					return true
				}
				return false
			}
		})
		x.server.CloseClientConnections()
		return nil
	})
	x.NoError(err)
	x.Equal(fleet.TaskFailed, o.Status)
	x.Contains(o.Reason, "stopped")
}

// TestRunnerOff checks all calls for a stopped workspace. Coder does not show the apps of such a workspace.
func TestRunnerOff(t *testing.T) {
	x := newFakeCoder(t)
	x.withRunner()
	x.ws.LatestBuild.Status, x.ws.LatestBuild.Resources = codersdk.WorkspaceStatusStopped, nil
	r := x.run("Say it.")
	runner := x.newPlace().Connect(x.agent())
	_, err := runner.Check(t.Context(), r, fleet.Check{ID: "1", Command: "true"})
	requireReason(x.T, err, fleet.ReasonAgentOffline)
	_, err = runner.Changes(t.Context(), r)
	requireReason(x.T, err, fleet.ReasonAgentOffline)
	_, _, err = runner.Patch(t.Context(), fleet.Changes{}, "", 0, 1)
	requireReason(x.T, err, fleet.ReasonAgentOffline)
	x.Equal(fleet.ReasonAgentOffline, fleet.ReasonOf(runner.Bundle(t.Context(), io.Discard)))
	x.Equal(fleet.ReasonAgentOffline, fleet.ReasonOf(runner.Dispatch(t.Context(), r)))
	x.NoError(runner.Interrupt(t.Context(), r, true))
	for _, cursor := range []string{"", "r17"} {
		o, err := runner.Follow(t.Context(), r, cursor, func(fleet.Output) error { return nil })
		x.NoError(err)
		x.Equal(fleet.TaskFailed, o.Status)
		x.Contains(o.Reason, "its workspace was stopped")
	}
}

// TestRunnerWhileStarting checks that runs continue while the startup script runs again, as it does after a crash of Coder's
// agent.
func TestRunnerWhileStarting(t *testing.T) {
	x := newFakeCoder(t)
	s := x.withRunner()
	runner := x.newPlace().Connect(x.agent())
	r := x.run("Say it.")
	x.NoError(runner.Dispatch(t.Context(), r))
	x.update(func() {
		x.ws.LatestBuild.Resources[0].Agents[0].LifecycleState = codersdk.WorkspaceAgentLifecycleStarting
	})
	x.NoError(runner.Dispatch(t.Context(), r))
	x.NoError(runner.Interrupt(t.Context(), r, false))
	output := ""
	o, err := runner.Follow(t.Context(), r, "", func(out fleet.Output) error {
		output += out.Text
		return nil
	})
	x.NoError(err)
	x.Equal(wideText, output)
	x.Equal(fleet.TaskStopped, o.Status)
	x.Len(s.runs, 2)
}

// TestIdle lists a hundred idle agents for a minute. This must refresh each agent and cost only a few requests.
func TestIdle(t *testing.T) {
	x := newFakeCoder(t)
	x.withRunner()
	runner := x.fault
	var all []codersdk.Workspace
	for range 100 {
		ws := x.ws
		ws.ID, ws.LatestBuild.ID, ws.Name = uuid.New(), uuid.New(), fmt.Sprintf("agent-idle-%d", len(all))
		all = append(all, ws)
	}
	requests, metadata := 0, 0
	x.fault = func(w http.ResponseWriter, r *http.Request) bool {
		x.update(func() {
			requests++
			if strings.HasSuffix(r.URL.Path, "/watch-metadata") {
				metadata++
			}
		})
		switch {
		case r.URL.Path == "/api/v2/workspaces":
			return writeJSON(w, codersdk.WorkspacesResponse{Workspaces: all, Count: len(all)})
		case strings.HasSuffix(r.URL.Path, "/parameters"):
			return writeJSON(w, []codersdk.WorkspaceBuildParameter{})
		case strings.HasSuffix(r.URL.Path, "/watch-metadata"):
			_, _ = io.WriteString(w, "event: data\ndata: []\n\n")
		default:
			return runner(w, r)
		}
		return true
	}
	p := x.newPlace()
	minute := func() int {
		x.update(func() { requests, metadata = 0, 0 })
		for range 20 {
			x.clock.Add(int64(3 * time.Second))
			list, err := p.List(t.Context())
			x.NoError(err)
			x.Len(list, 100)
		}
		return requests
	}
	least := minute()
	for range 9 { // until the metadata of each agent have been read once, which is not part of listing
		least = min(least, minute())
	}
	x.LessOrEqual(least, 25)
	x.Positive(metadata)
}

// TestDeadline checks that a run extends the deadline of its workspace, and warns if that fails.
func TestDeadline(t *testing.T) {
	for name, latest := range map[string]time.Duration{"extended": 0, "as far as it goes": 50 * time.Minute, "not at all": 10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			x := newFakeCoder(t)
			s := x.withRunner()
			now := time.Now()
			build := &x.ws.LatestBuild
			build.Deadline = codersdk.NewNullTime(now.Add(10*time.Minute), true)
			if latest > 0 {
				build.MaxDeadline = codersdk.NewNullTime(now.Add(latest), true)
			}
			asked := make(chan time.Time, 1)
			runner := x.fault
			x.fault = func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.HasSuffix(r.URL.Path, "/extend") {
					return runner(w, r)
				}
				var req codersdk.PutExtendWorkspaceRequest
				_ = json.NewDecoder(r.Body).Decode(&req)
				x.update(func() { x.ws.LatestBuild.Deadline = codersdk.NewNullTime(req.Deadline, true) })
				select {
				case asked <- req.Deadline:
				default:
				}
				return writeJSON(w, struct{}{})
			}
			var warned []string
			warning := make(chan struct{})
			r := x.run("Say it.")
			done := make(chan error)
			go func() {
				_, err := x.newPlace().Connect(x.agent()).Follow(t.Context(), r, "", func(out fleet.Output) error {
					if out.Step {
						warned = append(warned, string(out.Data))
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
				if latest > 0 {
					want = now.Add(latest)
				}
				require.WithinDuration(t, want, <-asked, time.Minute)
			}
			require.NoError(t, s.Send(t.Context(), r, "", "done"))
			require.NoError(t, <-done)
			if name == "not at all" {
				require.Len(t, warned, 1)
				require.Contains(t, warned[0], `"type":"warning"`)
				require.Contains(t, warned[0], "the latest time that its template allows")
			} else {
				require.Empty(t, warned)
			}
		})
	}
}

// TestPublicKey checks that a workspace gets Fleet's key if its template has the parameter.
func TestPublicKey(t *testing.T) {
	x := newFakeCoder(t)
	x.withRunner()
	var got codersdk.CreateWorkspaceRequest
	x.fault = func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case strings.HasSuffix(r.URL.Path, "/rich-parameters"):
			return writeJSON(w, []codersdk.TemplateVersionParameter{{Name: "fleet_public_key"}})
		case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/workspaces"):
			_ = json.NewDecoder(r.Body).Decode(&got)
			w.WriteHeader(http.StatusCreated)
			return writeJSON(w, x.ws)
		}
		return false
	}
	a := x.agent()
	a.WorkspaceID, a.Role = "", "Coder"
	_, err := x.newPlace().Provision(t.Context(), a)
	x.NoError(err)
	x.Contains(got.RichParameterValues, codersdk.WorkspaceBuildParameter{Name: "fleet_public_key", Value: remote.FormatPublicKey(x.key)})
}
