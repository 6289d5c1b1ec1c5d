package runner

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/runner/shim"
)

// TestSweep checks that a new run displaces the oldest run, and a new check displaces none.
func TestSweep(t *testing.T) {
	t.Parallel()
	h := Home(t.TempDir())
	for i := range maxKeptRuns {
		run := h.run(fmt.Sprintf("t%02d", i))
		require.NoError(t, os.MkdirAll(string(run), 0o700))
		for name, text := range map[string]string{specFile: "{}", "exit.json": "{}", "output": "text"} {
			require.NoError(t, os.WriteFile(run.Path(name), []byte(text), 0o600))
		}
		at := time.Unix(int64(1000+i), 0)
		require.NoError(t, os.Chtimes(run.Path(specFile), at, at))
	}
	sweepAndCountOutputs := func(created shim.Run) int {
		require.NoError(t, h.sweep(created))
		found, err := filepath.Glob(h.path("runs", "*", "output"))
		require.NoError(t, err)
		return len(found)
	}
	require.Equal(t, maxKeptRuns, sweepAndCountOutputs(h.run("t19"+checkSeparator+"1")))
	require.Equal(t, maxKeptRuns-1, sweepAndCountOutputs(h.run("t20")))
	require.NoFileExists(t, h.run("t00").Path("output"))
}
