// Package e2e runs real servers against a real Coder with real agents in real workspaces. It tests the whole contract
// on gRPC, REST and MCP, changes to agents without Fleet, crashes of Fleet, and faults of the network between Fleet and
// Coder. `make coder-up e2e` runs it; without a Coder its tests are skipped.
package e2e

import (
	"os"
	"testing"

	"fleet/internal/app"
)

// serverEnv makes the test binary act as the program, so that a server can be killed.
const serverEnv = "E2E_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(serverEnv) != "" {
		os.Exit(app.Main(os.Args[1:]))
	}
	os.Exit(m.Run())
}
