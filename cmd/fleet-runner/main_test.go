package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"debug/elf"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/runner/acp/acptest"
	"fleet/internal/runner/remote"
	"fleet/internal/waittest"
)

// TestMain lets the test binary also act as fleet-runner, and as an agent program that speaks the Agent Client Protocol.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "serve", "shim", "client", "ask":
			os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
		case "peer":
			acptest.Peer(os.Args[2])
			os.Exit(0)
		}
	}
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0")
	os.Exit(m.Run())
}

// testRunner runs the test binary as fleet-runner. A test can kill it and start it again at the same address.
type testRunner struct {
	t         *testing.T
	dir       string
	address   string
	publicKey string
	args      []string
	client    *remote.Client
	process   *exec.Cmd
}

func newTestRunner(t *testing.T, args ...string) *testRunner {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w := &testRunner{t: t, dir: t.TempDir(), address: l.Addr().String(), args: args, publicKey: base64.StdEncoding.EncodeToString(public)}
	require.NoError(t, l.Close())
	transport := &http.Transport{}
	w.client = remote.NewClient(remote.ClientConfig{URL: "http://" + w.address, Key: private, HTTP: &http.Client{Transport: transport}})
	w.start()
	t.Cleanup(func() {
		w.kill()
		transport.CloseIdleConnections()
	})
	return w
}

func (w *testRunner) start() {
	exe, err := os.Executable()
	require.NoError(w.t, err)
	w.process = exec.Command(exe, append([]string{
		"serve", "-listen", w.address, "-key", w.publicKey,
		"-state", filepath.Join(w.dir, "state"), "-dir", filepath.Join(w.dir, "work"),
	}, w.args...)...)
	w.process.Stderr = os.Stderr
	require.NoError(w.t, w.process.Start())
}

func (w *testRunner) kill() {
	_ = w.process.Process.Kill()
	_ = w.process.Wait()
}

func (w *testRunner) restart() {
	w.kill()
	w.start()
}

// TestKilledRunner kills the runner repeatedly during a run. No output may be lost or repeated, and nothing may run twice.
func TestKilledRunner(t *testing.T) {
	w := newTestRunner(t, "-driver", "shell")
	ctx, cancel := context.WithTimeout(t.Context(), waittest.Limit)
	defer cancel()
	a := w.client.Connect(fleet.Agent{UID: "agent-1", Name: "papi"})
	const lines = 100
	r := fleet.Run{
		TaskID: "task-1", Timeout: waittest.Limit,
		Prompt: fmt.Sprintf("echo begun >>times; for i in $(seq %d); do echo line $i; sleep 0.02; done; echo ended >>times", lines),
	}
	require.NoError(t, a.Dispatch(ctx, r))
	output, kills := "", 0
	o, err := a.Follow(ctx, r, "", func(out fleet.Output) error {
		output += out.Text
		if strings.Count(output, "\n") > 20*(kills+1) && kills < 4 {
			kills++
			w.restart()
			require.NoError(t, a.Dispatch(ctx, r)) // a server that does not know the first result repeats the call
		}
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, fleet.TaskCompleted, o.Status, o.Reason)
	require.Positive(t, kills)
	var all strings.Builder
	for i := range lines {
		fmt.Fprintf(&all, "line %d\n", i+1)
	}
	require.Equal(t, all.String(), output)
	require.Equal(t, all.String(), string(o.Payload))
	times, err := os.ReadFile(filepath.Join(w.dir, "work", "times"))
	require.NoError(t, err)
	require.Equal(t, "begun\nended\n", string(times))

	w.restart() // the next runner must know how the run ended
	require.NoError(t, a.Dispatch(ctx, r))
	again, err := a.Follow(ctx, r, "", func(fleet.Output) error { return nil })
	require.NoError(t, err)
	require.Equal(t, o, again)
}

// TestEnvironment checks that an agent gets no variable that would let it act as the workspace's owner.
func TestEnvironment(t *testing.T) {
	for _, name := range []string{"FLEET_PUBLIC_KEY", "CODER_AGENT_TOKEN", "GIT_ASKPASS", "GIT_SSH_COMMAND"} {
		t.Setenv(name, "a secret")
	}
	t.Setenv("ANTHROPIC_API_KEY", "its own")
	env := environ(map[string]string{"FLEET_TASK_ID": "task-1"})
	require.NotContains(t, strings.Join(env, "\n"), "a secret")
	require.Contains(t, env, "FLEET_TASK_ID=task-1")
	require.Contains(t, env, "ANTHROPIC_API_KEY=its own")
}

func TestInvalidArguments(t *testing.T) {
	key := base64.StdEncoding.EncodeToString(make([]byte, ed25519.PublicKeySize))
	for want, args := range map[string][]string{
		"is not a loopback address":   {"serve", "-key", key, "-listen", "0.0.0.0:0"},
		"-key: the public key must":   {"serve", "-key", "short"},
		"-driver: there is no driver": {"serve", "-key", key, "-driver", "nobody", "-state", t.TempDir(), "-dir", t.TempDir()},
		"unknown argument \"more\"":   {"serve", "more"},
		"fleet-runner serve":          {"sing"},
	} {
		var stderr bytes.Buffer
		require.NotZero(t, run(args, &stderr, &stderr), want)
		require.Contains(t, stderr.String(), want)
	}
}

// TestProgram builds the program for workspaces. It checks that the program is small, needs no libraries, prints the version
// that the linker sets, and initialises little before it can act as the sandbox helper.
func TestProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped with -short: it builds the program")
	}
	if runtime.GOOS != "linux" {
		t.Skip("only for Linux, like workspaces")
	}
	path := filepath.Join(t.TempDir(), "fleet-runner")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w -X main.version=v1.2.3", "-o", path, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Less(t, info.Size(), int64(15<<20))
	f, err := elf.Open(path)
	require.NoError(t, err)
	defer f.Close()
	for _, p := range f.Progs {
		require.NotEqual(t, elf.PT_INTERP, p.Type, "the program must be static")
	}
	version := exec.CommandContext(t.Context(), path, "version")
	version.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	var trace bytes.Buffer
	version.Stderr = &trace
	output, err := version.Output()
	require.NoError(t, err)
	require.Equal(t, "v1.2.3\n", string(output))
	require.Less(t, allocatedBefore(t, "fleet/internal/runner/sandbox", trace.String()), 200<<10, "see docs/decisions/022: %s", &trace)
}

// allocatedBefore returns how many bytes are allocated before the named package is initialised. The trace is what a program
// prints with GODEBUG=inittrace=1.
func allocatedBefore(t *testing.T, name, trace string) (sum int) {
	for line := range strings.Lines(trace) {
		var pkg string
		var at, clock float64
		var bytes int
		if n, _ := fmt.Sscanf(line, "init %s @%g ms, %g ms clock, %d bytes", &pkg, &at, &clock, &bytes); n < 4 {
			continue
		}
		if pkg == name {
			return sum
		}
		sum += bytes
	}
	require.Fail(t, "the package is not initialised", name)
	return 0
}
