package providers_test

import (
	"os"
	"testing"

	"fleet/internal/model/run"
	"fleet/internal/runner"
)

// TestMain lets the test binary act as the shim of runs, and as the run of a model.
func TestMain(m *testing.M) {
	if code, ran := runner.Main(os.Args[1:]); ran {
		os.Exit(code)
	}
	if len(os.Args) > 1 && os.Args[1] == "model-run" {
		os.Exit(run.Main())
	}
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // shims end at once under the race detector too
	os.Exit(m.Run())
}
