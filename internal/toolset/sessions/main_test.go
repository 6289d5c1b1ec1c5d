package sessions_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/place/cagent"
	"fleet/internal/runner"
)

// ownProcessesEnv is set in the environment of a second run of the tests. In this run the agents use the machine, so
// each of their turns has a process of its own.
const ownProcessesEnv = "SESSIONS_TEST_OWN_PROCESSES"

var ownProcesses = os.Getenv(ownProcessesEnv) != ""

// TestMain lets the test binary act as the supervisor of runs, and as the run of a model.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "shim":
			os.Exit(runner.ShimMain(os.Args[2:]...))
		case "model-run":
			os.Exit(cagent.Main())
		}
	}
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // processes of runs end at once under the race detector too
	os.Exit(m.Run())
}

// TestOwnProcesses runs all tests of this package again, with agents whose turns have processes of their own.
func TestOwnProcesses(t *testing.T) {
	if ownProcesses {
		t.Skip("this is already the run with processes of their own")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.count=1", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), ownProcessesEnv+"=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
}
