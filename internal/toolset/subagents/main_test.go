package subagents_test

import (
	"os"
	"testing"

	"fleet/internal/runner"
	"fleet/internal/waittest"
)

// TestMain lets the test binary act as its own shim and as the tests' claude program.
func TestMain(m *testing.M) {
	if code, ran := runner.Main(os.Args[1:]); ran {
		os.Exit(code)
	}
	if len(os.Args) > 2 && os.Args[1] == "claude" {
		actAsClaude(os.Args[2:])
	}
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // shims end at once under the race detector too
	waittest.VerifyTestMain(m)
}
