package subagents_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/place/local"
	"fleet/internal/reconcile"
	"fleet/internal/runner"
	"fleet/internal/runner/sandbox"
	"fleet/internal/service"
	"fleet/internal/state"
	"fleet/internal/store/sqlite/sqlitetest"
	"fleet/internal/toolset/subagents"
	"fleet/internal/waittest"
)

// TestMain lets the test binary act as its own shim and as the tests' claude program.
func TestMain(m *testing.M) {
	if code, ran := runner.Main(os.Args[1:]); ran {
		os.Exit(code)
	}
	if len(os.Args) > 2 && os.Args[1] == "claude" {
		claude(os.Args[2:])
	}
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // shims end at once under the race detector too
	goleak.VerifyTestMain(m)
}

// recordedCall records how claude was called.
type recordedCall struct {
	Argv    []string
	Env     []string
	Prompt  string
	System  string          // the instructions for its system prompt
	MCP     json.RawMessage // content of its --mcp-config
	MCPMode os.FileMode
	PID     int
}

func (c recordedCall) flag(name string) string {
	if i := slices.Index(c.Argv, name); i >= 0 {
		return c.Argv[i+1]
	}
	return "-"
}

// readRequest reads the first request and the first message from the standard input, and returns the instructions for the system
// prompt and the prompt. A later interrupt ends the process.
func readRequest() (system, prompt string) {
	in := bufio.NewReader(os.Stdin)
	var first struct {
		Request struct{ SystemPrompt, AppendSystemPrompt string }
	}
	var message struct {
		Message struct{ Content []struct{ Text string } }
	}
	for _, v := range []any{&first, &message} {
		line, _ := in.ReadBytes('\n')
		if json.Unmarshal(line, v) != nil {
			os.Exit(99)
		}
	}
	go func() {
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			if strings.Contains(line, `"interrupt"`) {
				os.Exit(143)
			}
		}
	}()
	return first.Request.SystemPrompt + first.Request.AppendSystemPrompt, message.Message.Content[0].Text
}

// claude acts as the claude program. It records how it was called and then follows its prompt line by line: "say TEXT"
// sets the result, "break" makes an MCP server fail, "big N" sets a result of N bytes, "fail TEXT" makes the run fail,
// "tell TEXT" says something before the result, "hang" waits for an hour, and "wait" waits for the file $HOME/open. If the
// prompt says that the previous answer cannot be used, claude answers with the next line of $HOME/better.
func claude(argv []string) {
	c := recordedCall{Argv: argv, Env: os.Environ(), PID: os.Getpid()}
	c.System, c.Prompt = readRequest()
	if path := c.flag("--mcp-config"); path != "-" {
		c.MCP, _ = os.ReadFile(path)
		info, _ := os.Stat(path)
		c.MCPMode = info.Mode()
	}
	home := os.Getenv("HOME")
	b, _ := json.Marshal(c)
	path := filepath.Join(home, "calls", fmt.Sprintf("%d-%d", time.Now().UnixNano(), os.Getpid()))
	_ = os.WriteFile(path+".new", b, 0o600)
	_ = os.Rename(path+".new", path)

	session := c.flag("--resume")
	if session == "-" {
		session = "s-" + strconv.Itoa(os.Getpid())
	}
	event := func(v map[string]any) {
		v["session_id"] = session
		b, _ := json.Marshal(v)
		fmt.Println(string(b))
	}
	servers := []map[string]string{{"name": "tickets", "status": "connected"}}
	if strings.Contains(c.Prompt, "break ") {
		servers[0]["status"] = "failed"
	}
	event(map[string]any{"type": "system", "subtype": "init", "model": "opus", "mcp_servers": servers})
	event(map[string]any{"type": "assistant", "message": map[string]any{"content": []any{}}}) // shows that the prompt has arrived
	text, code := "nothing to say", 0
	lines := strings.Split(c.Prompt, "\n")
	if strings.Contains(c.Prompt, "Your answer cannot be used") {
		better, _ := os.ReadFile(filepath.Join(home, "better"))
		first, rest, _ := strings.Cut(string(better), "\n")
		_ = os.WriteFile(filepath.Join(home, "better"), []byte(rest), 0o600)
		lines = []string{"say " + first}
	}
	for _, line := range lines {
		verb, rest, _ := strings.Cut(line, " ")
		switch verb {
		case "say":
			text = rest
		case "big":
			n, _ := strconv.Atoi(rest)
			text = strings.Repeat("word ", n/5)
		case "fail":
			text, code = rest, 1
		case "tell":
			event(map[string]any{"type": "assistant", "message": map[string]any{"content": []any{map[string]any{"type": "text", "text": rest}}}})
		case "hang":
			time.Sleep(time.Hour)
		case "wait":
			for {
				if _, err := os.Stat(filepath.Join(home, "open")); err == nil {
					break
				}
				time.Sleep(5 * time.Millisecond)
			}
		}
	}
	event(map[string]any{
		"type": "result", "subtype": "success", "is_error": code != 0, "result": text, "num_turns": 1, "total_cost_usd": 0.25,
		"usage": map[string]any{"input_tokens": 100, "output_tokens": 10},
	})
	os.Exit(code)
}

// testService is a subagents service over a real core, a real store and real processes.
type testService struct {
	*subagents.Service
	t      *testing.T
	core   *service.Service
	store  fleet.Store
	remote *fake.Place // the place "coder"
	dir    string      // directory of all files
}

// newTestService starts a service. change modifies the tests' default configuration.
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
	store, err := sqlitetest.Open(t.Context(), filepath.Join(dir, "fleet.db"))
	require.NoError(t, err)
	environ := []string{"PATH=" + filepath.Join(dir, "bin") + ":" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home"), "GORACE=atexit_sleep_ms=0", "KEY=s3cret", "FLEET_TOKEN=never"}
	host, err := local.New(local.Config{Dir: filepath.Join(dir, "data"), Program: supervisor, StopGrace: 200 * time.Millisecond, Sandbox: mode, Environ: environ, PassEnv: []string{"GORACE"}, Read: []string{exe}, Write: []string{filepath.Join(dir, "home")}})
	require.NoError(t, err)
	w := &testService{t: t, store: store, remote: fake.New(fake.Config{Traits: fleet.Traits{Name: "coder"}}), dir: dir}
	log := slog.New(slog.NewTextHandler(logWriter{t}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	st := state.New(store, []fleet.Place{host}, state.Config{
		OtherPlaces: []fleet.Place{w.remote}, MCPURL: func() string { return "http://127.0.0.1:1/mcp" },
		PollInterval: 100 * time.Millisecond, Logger: log,
	})
	w.core = service.New(st)
	cfg := subagents.Config{Settings: subagents.Settings{Dir: filepath.Join(dir, "agents")}, Logger: log, Lookup: func(name string) (string, bool) {
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
	w.Service = subagents.New(w.core, cfg)
	rec := reconcile.New(st, nil)
	rec.Start()
	w.Start()
	t.Cleanup(func() {
		w.Stop()
		w.empty()
		rec.Stop()
		w.remote.Destroy()
		require.NoError(t, host.Close())
		require.NoError(t, store.Close())
	})
	return w
}

type logWriter struct{ t testing.TB }

func (w logWriter) Write(b []byte) (int, error) {
	if w.t.Context().Err() == nil {
		w.t.Logf("%s", b)
	}
	return len(b), nil
}

// empty deletes all agents and waits until they no longer exist. It fails the test if a process is left then.
func (t *testService) empty() {
	t.t.Helper()
	ctx, cancel := context.WithTimeout(asRoot(context.Background()), waittest.Limit)
	defer cancel()
	for _, v := range t.agents() {
		require.NoError(t.t, t.core.RemoveAgent(ctx, v.UID))
	}
	t.waitUntil(func() bool { return len(t.agents()) == 0 })
	require.Empty(t.t, t.processes(), "no process of a deleted agent may be left")
}

// waitUntil waits for a condition, checking it after each notification of the store.
func (t *testService) waitUntil(ok func() bool) {
	t.t.Helper()
	signal, cancel := t.store.Subscribe()
	defer cancel()
	waittest.UntilSignalled(t.t, signal, ok)
}

// hasOutput reports whether a task has output.
func (t *testService) hasOutput() (ok bool) {
	t.t.Helper()
	require.NoError(t.t, t.store.View(context.Background(), func(tx fleet.ReadTx) error {
		last, err := tx.Events(fleet.EventFilter{Types: []fleet.EventType{fleet.EventTaskOutput}}, fleet.EventWindow{Newest: true, Limit: 1})
		ok = len(last) > 0
		return err
	}))
	return ok
}

// agents returns the existing agents.
func (t *testService) agents() (agents []*fleet.AgentView) {
	t.t.Helper()
	require.NoError(t.t, t.store.View(context.Background(), func(tx fleet.ReadTx) (err error) {
		agents, err = tx.AgentViews(fleet.AgentViewFilter{Live: true})
		return err
	}))
	return agents
}

// processes returns the command lines of the running claude processes.
func (t *testService) processes() (found []string) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		env, _ := os.ReadFile(filepath.Join(dir, "environ"))
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		if bytes.Contains(env, []byte("HOME="+t.dir)) && bytes.Contains(line, []byte("\x00claude\x00")) {
			found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}

// define writes the definition of a subagent: its frontmatter and its body.
func (t *testService) define(name, frontmatter, body string) {
	t.t.Helper()
	t.write(name+"/agent.md", "---\n"+frontmatter+"\n---\n"+body)
}

func (t *testService) write(path, text string) {
	t.t.Helper()
	path = filepath.Join(t.dir, "agents", path)
	require.NoError(t.t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t.t, os.WriteFile(path, []byte(text), 0o600))
}

// calls returns the calls of claude so far, in order.
func (t *testService) calls() (calls []recordedCall) {
	t.t.Helper()
	paths, err := filepath.Glob(filepath.Join(t.dir, "home", "calls", "*[0-9]"))
	require.NoError(t.t, err)
	slices.Sort(paths)
	for _, p := range paths {
		b, err := os.ReadFile(p)
		require.NoError(t.t, err)
		var c recordedCall
		require.NoError(t.t, json.Unmarshal(b, &c))
		calls = append(calls, c)
	}
	return calls
}

// waitCalls waits until claude was called at least n times.
func (t *testService) waitCalls(n int) {
	t.t.Helper()
	waittest.Until(t.t, "another process gives no signal", func() bool { return len(t.calls()) >= n })
}

// releaseWaiting releases claude processes that wait.
func (t *testService) releaseWaiting() {
	t.t.Helper()
	require.NoError(t.t, os.WriteFile(filepath.Join(t.dir, "home", "open"), nil, 0o600))
}

// run runs a subagent for alice.
func (t *testService) run(name, prompt string) (*subagents.Result, error) {
	return t.Run(t.ctx(), subagents.Request{Agent: name, Prompt: prompt})
}

// runLater runs a subagent in the background, and returns a channel for the error.
func (t *testService) runLater(ctx context.Context, r subagents.Request) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := t.Run(ctx, r)
		done <- err
	}()
	return done
}

// mustRun runs a subagent for alice and requires that it succeeds.
func (t *testService) mustRun(name, prompt string) *subagents.Result {
	t.t.Helper()
	r, err := t.run(name, prompt)
	require.NoError(t.t, err)
	return r
}

func (t *testService) ctx() context.Context { return asPrincipal(t.t.Context(), "alice") }

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
