//go:build linux && (amd64 || arm64)

package sandbox_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/runner/sandbox"
)

// TestOverride checks that root with Override can write files of another user, but only where the policy allows it.
func TestOverride(t *testing.T) {
	t.Parallel()
	if err := sandbox.Available(); err != nil {
		t.Skip(err)
	}
	if os.Geteuid() != 0 {
		t.Skip("only root has the capability")
	}
	writable, forbidden := t.TempDir(), t.TempDir()
	for _, dir := range []string{writable, forbidden} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o400))
		for _, path := range []string{filepath.Join(dir, "file"), dir} {
			require.NoError(t, os.Chown(path, nobody, nobody))
		}
	}
	run := func(override bool, script string) error {
		cmd := exec.Command("sh", "-c", script)
		require.NoError(t, sandbox.Confine(cmd, sandbox.Policy{Write: []string{writable}, Read: systemPaths, Network: sandbox.Offline, Override: override}))
		return cmd.Run()
	}
	write := "echo x >>" + filepath.Join(writable, "file")
	require.Error(t, run(false, write))
	require.NoError(t, run(true, write))
	require.Error(t, run(true, "echo x >>"+filepath.Join(forbidden, "file")))
	require.Error(t, run(true, "cat "+filepath.Join(forbidden, "file")))
	require.Error(t, run(true, "chown root "+filepath.Join(writable, "file")), "it must have no other capability")
}
