package coder_test

import (
	"context"
	"crypto/ed25519"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/coder/coder/v2/codersdk"

	"fleet/internal/fleet"
	"fleet/internal/runner/remote"
)

// scriptedRunner is a runner whose runs print wideText, and end with the first outcome that is sent to their channel in outcomes.
type scriptedRunner struct {
	fleet.Runner
	mu       sync.Mutex
	runs     []fleet.Run                   // as they were dispatched
	cursors  []string                      // of the calls of Follow
	outcomes map[string]chan fleet.Outcome // by task; each channel holds the outcome of the task
}

func (s *scriptedRunner) Connect(fleet.Agent) fleet.Runner { return s }

func (s *scriptedRunner) Dispatch(_ context.Context, r fleet.Run) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs = append(s.runs, r)
	return nil
}

// outcome returns the channel for the outcome of the task's run.
func (s *scriptedRunner) outcome(task string) chan fleet.Outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.outcomes[task] == nil {
		s.outcomes[task] = make(chan fleet.Outcome, 1)
	}
	return s.outcomes[task]
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
	outcome := s.outcome(r.TaskID)
	select {
	case o := <-outcome:
		outcome <- o // puts the outcome back for a later Follow
		return o, nil
	case <-ctx.Done():
		return fleet.Outcome{}, ctx.Err()
	}
}

func (s *scriptedRunner) Interrupt(_ context.Context, r fleet.Run, _ bool) error {
	s.outcome(r.TaskID) <- fleet.Outcome{Status: fleet.TaskStopped}
	return nil
}

func (s *scriptedRunner) Send(_ context.Context, r fleet.Run, _, text string) error {
	s.outcome(r.TaskID) <- fleet.Outcome{Status: fleet.TaskCompleted, Summary: text, Payload: []byte(wideText)}
	return nil
}

func (s *scriptedRunner) Answer(_ context.Context, r fleet.Run, q fleet.Question) error {
	s.outcome(r.TaskID) <- fleet.Outcome{Status: fleet.TaskCompleted, Summary: q.Answer}
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

// addRunner adds a fleet-runner to the workspace, in addition to AgentAPI.
func (x *fakeCoder) addRunner() *scriptedRunner {
	public, key, err := ed25519.GenerateKey(nil)
	x.NoError(err)
	x.key = key
	s := &scriptedRunner{outcomes: map[string]chan fleet.Outcome{}}
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
