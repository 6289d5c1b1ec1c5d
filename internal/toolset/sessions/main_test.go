package sessions_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/place/cagent"
	"fleet/internal/runner"
)

// ownProcessesEnv is set for tests whose agents touch the machine, so that their turns have processes of their own.
const ownProcessesEnv = "SESSIONS_TEST_OWN_PROCESSES"

var ownProcesses = os.Getenv(ownProcessesEnv) != ""

// TestMain makes the test binary the supervisor of runs, and a run of a model.
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

// TestOwnProcesses runs all tests of this package with agents that touch the machine.
func TestOwnProcesses(t *testing.T) {
	if ownProcesses {
		t.Skip("this is that run")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.count=1", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), ownProcessesEnv+"=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
}
