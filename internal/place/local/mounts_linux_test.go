package local_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"fleet/internal/fleet"
	"fleet/internal/place/local"
	"fleet/internal/runner/sandbox"
	"fleet/internal/runner/shim"
	"fleet/internal/unprivileged"
)

// TestMountsOfOrdinaryUser checks that an agent of a server that is not root cannot change modes of files outside of its sandbox, and
// cannot see the data of the server.
func TestMountsOfOrdinaryUser(t *testing.T) {
	if closed := t.TempDir(); os.Geteuid() == 0 && unix.Mount("tmpfs", closed, "tmpfs", 0, "") == nil { // a mount that the user cannot reach
		defer func() { require.NoError(t, unix.Unmount(closed, 0)) }()
	}
	if unprivileged.Rerun(t) {
		return
	}
	requireSandbox(t)
	for name, network := range map[string]sandbox.Network{"full": sandbox.Full, "none": sandbox.Offline, "allow": sandbox.Allow("example.com:443")} {
		t.Run(name, func(t *testing.T) { testMounts(t, network) })
	}
}

// testMounts runs an agent of a project with the network access, and checks its access to files. It skips the test if the run has no
// namespaces.
func testMounts(t *testing.T, network sandbox.Network) {
	t.Helper()
	w := newTestPlace(t, func(c *local.Config) { c.Projects = []local.Project{{Name: "shell", Network: network}} })
	a := w.provisionIn("shell")
	outside := filepath.Join(t.TempDir(), "theirs")
	require.NoError(t, os.WriteFile(outside, nil, 0o600))
	own := w.home(a, "agent.json")
	r := w.start(a, fmt.Sprintf("chmod 777 %s || true; ls %s || true; stat %s || true; touch mine && chmod 700 mine && grep CapEff /proc/self/status; echo done", outside, w.dir, own))
	output, o := w.follow(a, r)
	require.Equal(t, fleet.TaskCompleted, o.Status, o.Reason)
	c, err := shim.Run(w.runDir(a, r)).Claim()
	require.NoError(t, err)
	if !c.PIDNamespace {
		t.Skip("this machine allows no user namespaces")
	}
	info, err := os.Stat(outside)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode(), output)
	require.Contains(t, output, "Read-only file system")
	require.Contains(t, output, "No such file", "the data of the server must be hidden")
	require.Regexp(t, `CapEff:\s+0000000000000000`, output)
}
