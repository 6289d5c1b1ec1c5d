package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"fleet/internal/waittest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"fleet": func() {
			d := Deps{Version: "test"}
			d.secondPressTime, _ = time.ParseDuration(os.Getenv("TEST_SECOND_PRESS"))
			os.Exit(Run(context.Background(), os.Args[1:], d))
		},
	})
}

// outputBuffer is a buffer that tests can wait on.
type outputBuffer struct {
	mu      sync.Mutex
	b       bytes.Buffer
	changed chan struct{}
}

func newOutputBuffer() *outputBuffer { return &outputBuffer{changed: make(chan struct{})} }

func (o *outputBuffer) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	defer func() {
		close(o.changed)
		o.changed = make(chan struct{})
	}()
	return o.b.Write(p)
}

func (o *outputBuffer) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// await waits until the text has been written.
func (o *outputBuffer) await(t *testing.T, text string) {
	t.Helper()
	limit := time.After(waittest.Limit)
	for {
		o.mu.Lock()
		found, changed := bytes.Contains(o.b.Bytes(), []byte(text)), o.changed
		o.mu.Unlock()
		if found {
			return
		}
		select {
		case <-changed:
		case <-limit:
			require.Failf(t, "not written", "waited for %q, got %q", text, o.String())
		}
	}
}

// command is a command line of fleet that run and start execute in this process. stdout and stderr collect its output.
type command struct {
	stdin          string
	env            map[string]string
	signals        chan os.Signal
	stdout, stderr *outputBuffer
	reconnectTime  time.Duration
	dial           Dialer
}

func newCommand(server string) *command {
	return &command{env: map[string]string{"FLEET_SERVER": server}, signals: make(chan os.Signal, 4), stdout: newOutputBuffer(), stderr: newOutputBuffer(), reconnectTime: waittest.Limit}
}

func (c *command) run(args ...string) int {
	return Run(context.Background(), args, Deps{
		Version: "test", Stdin: bytes.NewBufferString(c.stdin), Stdout: c.stdout, Stderr: c.stderr, Signals: c.signals, reconnectTime: c.reconnectTime, completionTimeout: waittest.Limit,
		Getenv: func(key string) string { return c.env[key] }, Dial: c.dial,
	})
}

// start runs the command in the background. The channel gets its exit code.
func (c *command) start(args ...string) <-chan int {
	code := make(chan int, 1)
	go func() { code <- c.run(args...) }()
	return code
}

// waitForExit returns the exit code of a command that start has started.
func waitForExit(t *testing.T, code <-chan int) int {
	t.Helper()
	select {
	case c := <-code:
		return c
	case <-time.After(waittest.Limit):
		require.Fail(t, "the command must end within the time limit")
		return 0
	}
}

// runFleet runs a command against the server and returns its output and exit code.
func runFleet(server string, args ...string) (stdout, stderr string, code int) {
	c := newCommand(server)
	code = c.run(args...)
	return c.stdout.String(), c.stderr.String(), code
}

// mustRun runs a command that must succeed, and returns its output.
func mustRun(t *testing.T, server string, args ...string) (stdout, stderr string) {
	t.Helper()
	stdout, stderr, code := runFleet(server, args...)
	require.Equal(t, ExitOK, code, stderr)
	return stdout, stderr
}

// requireOnlyFile fails the test unless the file has the content and is the only file in its directory.
func requireOnlyFile(t *testing.T, file, content string) {
	t.Helper()
	data, err := os.ReadFile(file) //nolint:gosec // the test's own
	require.NoError(t, err)
	require.Equal(t, content, string(data))
	entries, err := os.ReadDir(filepath.Dir(file))
	require.NoError(t, err)
	require.Len(t, entries, 1)
}
