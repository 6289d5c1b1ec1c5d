// Package e2e runs real servers, as `fleet serve` does, against a real Coder with real agents in real workspaces: the
// whole contract through gRPC, REST and MCP, what happens to agents behind Fleet's back, what happens to Fleet, and what
// happens on the way between the two. `make coder-up e2e` runs it; without a Coder its tests are skipped.
package e2e

import (
	"os"
	"testing"

	"fleet/internal/app"
)

// serverEnv makes the test program the program itself, so that a server can be killed.
const serverEnv = "E2E_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(serverEnv) != "" {
		os.Exit(app.Main(os.Args[1:]))
	}
	os.Exit(m.Run())
}
