package subagents_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/place/local"
	"fleet/internal/runner/sandbox"
	"fleet/internal/service/servicetest"
	"fleet/internal/state"
	"fleet/internal/toolset/subagents"
	"fleet/internal/waittest"
)

// testService is a subagents service over a fleet with the real place "local" and the fake place "coder".
type testService struct {
	*subagents.Service
	t     *testing.T
	fleet *servicetest.Harness
	dir   string // directory of the files, except the store
}

// newTestService starts a service. change, which may be nil, modifies the tests' default configuration.
func newTestService(t *testing.T, change func(*subagents.Config)) *testService {
	return newTestServiceWith(t, sandbox.Auto, change)
}

// newTestServiceWith is like newTestService, but runs the agents on this machine in the sandbox mode.
func newTestServiceWith(t *testing.T, mode sandbox.Mode, change func(*subagents.Config)) *testService {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{"bin", "home/calls", "agents"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, d), 0o700))
	}
	exe, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bin", "claude"), []byte("#!/bin/sh\nHOME='"+filepath.Join(dir, "home")+"' exec '"+exe+"' claude \"$@\"\n"), 0o700))

	supervisor, err := sandbox.Executable()
	require.NoError(t, err)
	environ := []string{"PATH=" + filepath.Join(dir, "bin") + ":" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home"), "GORACE=atexit_sleep_ms=0", "KEY=s3cret", "FLEET_TOKEN=never"}
	host, err := local.New(local.Config{Dir: filepath.Join(dir, "data"), Program: supervisor, StopGrace: 200 * time.Millisecond, Sandbox: mode, Environ: environ, PassEnv: []string{"GORACE"}, Read: []string{exe}, Write: []string{filepath.Join(dir, "home")}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, host.Close()) })
	w := &testService{t: t, dir: dir, fleet: servicetest.New(t, fake.Config{Traits: fleet.Traits{Name: "coder"}}, func(c *state.Config) {
		c.StopGrace, c.OtherPlaces, c.MCPURL = 200*time.Millisecond, []fleet.Place{host}, func() string { return "http://127.0.0.1:1/mcp" }
	})}
	cfg := subagents.Config{Settings: subagents.Settings{Dir: filepath.Join(dir, "agents")}, Logger: w.fleet.Config.Logger, Lookup: func(name string) (string, bool) {
		for _, v := range environ {
			if value, ok := strings.CutPrefix(v, name+"="); ok {
				return value, true
			}
		}
		return "", false
	}}
	if change != nil {
		change(&cfg)
	}
	w.Service = subagents.New(w.fleet.Service, cfg)
	w.Start()
	t.Cleanup(func() {
		w.Stop()
		w.deleteAllAgents()
	})
	return w
}

// deleteAllAgents deletes all agents and waits until they no longer exist. It fails the test if a process is left then.
func (w *testService) deleteAllAgents() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(asRoot(context.Background()), waittest.Limit)
	defer cancel()
	for _, v := range w.agents() {
		require.NoError(w.t, w.fleet.RemoveAgent(ctx, v.UID))
	}
	w.fleet.WaitStored(func() bool { return len(w.agents()) == 0 })
	require.Empty(w.t, w.processes(), "no process of a deleted agent may be left")
}

// hasOutput reports whether a task has output.
func (w *testService) hasOutput() (ok bool) {
	w.t.Helper()
	require.NoError(w.t, w.fleet.Store.View(context.Background(), func(tx fleet.ReadTx) error {
		last, err := tx.Events(fleet.EventFilter{Types: []fleet.EventType{fleet.EventTaskOutput}}, fleet.EventWindow{Newest: true, Limit: 1})
		ok = len(last) > 0
		return err
	}))
	return ok
}

// agents returns the existing agents of all owners.
func (w *testService) agents() (agents []*fleet.AgentView) {
	w.t.Helper()
	require.NoError(w.t, w.fleet.Store.View(context.Background(), func(tx fleet.ReadTx) (err error) {
		agents, err = tx.AgentViews(fleet.AgentViewFilter{Live: true})
		return err
	}))
	return agents
}

// processes returns the command lines of the running claude processes.
func (w *testService) processes() (found []string) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		env, _ := os.ReadFile(filepath.Join(dir, "environ"))
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		if bytes.Contains(env, []byte("HOME="+w.dir)) && bytes.Contains(line, []byte("\x00claude\x00")) {
			found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}

// define writes the definition of a subagent: its frontmatter and its body.
func (w *testService) define(name, frontmatter, body string) {
	w.t.Helper()
	w.write(name+"/agent.md", "---\n"+frontmatter+"\n---\n"+body)
}

// write writes a file below the directory of definitions.
func (w *testService) write(path, text string) {
	w.t.Helper()
	path = filepath.Join(w.dir, "agents", path)
	require.NoError(w.t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(w.t, os.WriteFile(path, []byte(text), 0o600))
}

// calls returns the calls of claude so far, in order.
func (w *testService) calls() (calls []recordedCall) {
	w.t.Helper()
	paths, err := filepath.Glob(filepath.Join(w.dir, "home", "calls", "*[0-9]"))
	require.NoError(w.t, err)
	slices.Sort(paths)
	for _, p := range paths {
		b, err := os.ReadFile(p)
		require.NoError(w.t, err)
		var c recordedCall
		require.NoError(w.t, json.Unmarshal(b, &c))
		calls = append(calls, c)
	}
	return calls
}

// waitForCalls waits until claude has been called at least n times.
func (w *testService) waitForCalls(n int) {
	w.t.Helper()
	waittest.Until(w.t, "another process gives no signal", func() bool { return len(w.calls()) >= n })
}

// releaseWaiting ends the waiting of all claude processes that follow "wait", also of later ones.
func (w *testService) releaseWaiting() {
	w.t.Helper()
	require.NoError(w.t, os.WriteFile(filepath.Join(w.dir, "home", "open"), nil, 0o600))
}

// run runs a subagent for alice.
func (w *testService) run(name, prompt string) (*subagents.Result, error) {
	return w.Run(w.ctx(), subagents.Request{Agent: name, Prompt: prompt})
}

// runInBackground runs a subagent in the background, and returns a channel that receives its error.
func (w *testService) runInBackground(ctx context.Context, r subagents.Request) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := w.Run(ctx, r)
		done <- err
	}()
	return done
}

// mustRun runs a subagent for alice and requires that it succeeds.
func (w *testService) mustRun(name, prompt string) *subagents.Result {
	w.t.Helper()
	r, err := w.run(name, prompt)
	require.NoError(w.t, err)
	return r
}

// ctx returns a context for calls of alice.
func (w *testService) ctx() context.Context { return asPrincipal(w.t.Context(), "alice") }

func asPrincipal(ctx context.Context, name string) context.Context {
	return fleet.WithPrincipal(ctx, fleet.Principal{Name: name, Kind: fleet.KindController})
}

func asRoot(ctx context.Context) context.Context {
	return fleet.WithPrincipal(ctx, fleet.Principal{Name: "root", Kind: fleet.KindHuman, Scope: fleet.ScopeAdmin})
}

// asAgent returns a context with the identity that the agent's token gives.
func asAgent(ctx context.Context, a *fleet.Agent) context.Context {
	p := fleet.Principal{Name: a.Owner, Kind: fleet.KindAgent, AgentUID: a.UID, AgentName: a.Name}
	return fleet.WithPrincipal(ctx, p)
}

// requireReason requires that err has the reason and that its text contains all words. It returns the error.
func requireReason(t *testing.T, err error, reason fleet.Reason, words ...string) *fleet.Error {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, reason, fleet.ReasonOf(err), "%v", err)
	for _, w := range words {
		require.Contains(t, fleet.PublicMessage(err), w)
	}
	var e *fleet.Error
	require.ErrorAs(t, err, &e)
	require.NotContains(t, fmt.Sprint(err, e.Metadata), "s3cret")
	return e
}

// runConcurrently runs the functions concurrently and waits for them.
func runConcurrently(functions ...func()) {
	var wg sync.WaitGroup
	for _, f := range functions {
		wg.Go(f)
	}
	wg.Wait()
}

func lastOf[T any](list []T) T { return list[len(list)-1] }
