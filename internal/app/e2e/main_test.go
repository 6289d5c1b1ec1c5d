// Package e2e runs real servers with a real Coder, and real agents in real workspaces. It tests the API on gRPC, REST and
// MCP, changes to agents directly in Coder, crashes of Fleet, and faults of the network between Fleet
// and Coder. `make coder-up e2e` runs it. Its tests are skipped unless FLEET_E2E is set.
package e2e

import (
	"os"
	"testing"

	"fleet/internal/app"
	"fleet/internal/runner"
	"fleet/internal/store/postgres/pgtest"
)

// serverEnv is the environment variable that makes the test binary act as the fleet program, so that a test can kill a
// server.
const serverEnv = "E2E_SERVER"

func TestMain(m *testing.M) {
	if code, ran := runner.Main(os.Args[1:]); ran { // this process supervises a run of an agent on this machine
		os.Exit(code)
	}
	if os.Getenv(serverEnv) != "" {
		os.Exit(app.Main(os.Args[1:]))
	}
	os.Exit(pgtest.Run(m))
}
