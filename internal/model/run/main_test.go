//go:build cgo

package run_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"fleet/internal/model/definition"
	"fleet/internal/model/run"
	"fleet/internal/place/local"
	"fleet/internal/runner"
	"fleet/internal/runner/sandbox"
)

// TestMain lets the test binary also act as a supervisor of runs, as a run, and as an MCP server.
func TestMain(m *testing.M) {
	if code, ran := runner.Main(os.Args[1:]); ran {
		os.Exit(code)
	}
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "model-run":
			os.Exit(run.Main())
		case mcpServerArgument:
			_ = calculator().Run(context.Background(), &mcp.StdioTransport{})
			os.Exit(0)
		}
	}
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // lets processes of runs end at once under the race detector
	os.Exit(m.Run())
}

// withProcesses makes the place run each agent in a process of the test binary, under the real supervisor.
func withProcesses(t testing.TB, c *local.Config) {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	supervisor, err := sandbox.Executable()
	require.NoError(t, err)
	c.Program, c.Models.Command, c.Models.Needs = supervisor, []string{exe, "model-run"}, definition.Needs
	c.StopGrace = 2 * time.Second
}
