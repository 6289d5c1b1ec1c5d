package app

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/runner/sandbox"
)

// TestSupervisor checks that runs are supervised by fleet-runner only if it has the same version; otherwise by this program.
func TestSupervisor(t *testing.T) {
	t.Parallel()
	self, err := sandbox.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	runnerPath := filepath.Join(dir, runnerName(runtime.GOOS+"-"+runtime.GOARCH))
	for _, c := range []struct{ script, want string }{
		{"", self},
		{"echo v0.0.1", self},
		{"echo " + Version(), runnerPath},
		{"echo " + Version() + "; exit 1", self},
	} {
		if c.script != "" {
			require.NoError(t, os.WriteFile(runnerPath, []byte("#!/bin/sh\n"+c.script+"\n"), 0o700))
		}
		got, err := Config{RunnerDir: dir}.supervisor(t.Context())
		require.NoError(t, err)
		require.Equal(t, c.want, got, c.script)
	}
}
