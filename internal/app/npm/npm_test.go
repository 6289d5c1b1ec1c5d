// Package npm tests Fleet with programs from npm: conformance suites, clients of MCP, and the agent programs that Fleet
// drives. These programs are large, so their tests run only on request: `make conformance`, `make test-claude` and
// `make test-agents` run them.
package npm

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// root is the top of the repository.
const root = "../../.."

// defaultTimeout limits each wait of a test.
const defaultTimeout = 5 * time.Minute

// skipUnlessSet skips the test unless the environment variable is set. If it is set and npm is missing, the test fails.
// The message of a skipped test names the make target that runs it and the size of its downloads.
func skipUnlessSet(t *testing.T, variable, target, size string) {
	t.Helper()
	if os.Getenv(variable) == "" {
		t.Skipf("needs npm and downloads %s: `make %s` runs it", size, target)
	}
	if _, err := exec.LookPath("npm"); err != nil {
		t.Fatal("npm is not on PATH: install Node.js, which brings it")
	}
}

// install installs the packages of the directory set in testdata/npm, with the versions in its lock file, and returns
// the directory of the packages. It runs npm only if these versions are not installed yet.
func install(t *testing.T, set string) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join(root, ".build", "npm", set))
	require.NoError(t, err)
	source := filepath.Join(root, "testdata", "npm", set)
	lock := read(t, filepath.Join(source, "package-lock.json"))
	done := filepath.Join(dir, "installed") // a copy of the lock file, written after the installation
	if have, err := os.ReadFile(done); errors.Is(err, fs.ErrNotExist) || !bytes.Equal(have, lock) {
		require.NoError(t, os.RemoveAll(dir))
		require.NoError(t, os.MkdirAll(dir, 0o755))
		require.NoError(t, os.CopyFS(dir, os.DirFS(source)))
		start := time.Now()
		cmd := exec.CommandContext(t.Context(), "npm", "ci", "--loglevel=error")
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "npm ci: %s", out)
		require.NoError(t, os.WriteFile(done, lock, 0o600))
		t.Logf("installed %s in %s", set, time.Since(start).Round(time.Second))
	}
	// Scripts look for packages next to their own path, so they must be in this directory. They change more often than
	// the packages, so they are always copied.
	scripts, err := filepath.Glob(filepath.Join(source, "*.mjs"))
	require.NoError(t, err)
	for _, s := range scripts {
		require.NoError(t, os.WriteFile(filepath.Join(dir, filepath.Base(s)), read(t, s), 0o600))
	}
	return dir
}

// buildFleet builds fleet and fleet-runner from the current sources, once, and returns the path of fleet.
var buildFleet = sync.OnceValues(func() (string, error) {
	path, err := filepath.Abs(filepath.Join(root, ".build", "npm", "fleet"))
	if err != nil {
		return "", err
	}
	cmd := exec.Command("make", "build", "BIN="+filepath.Dir(path))
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", errors.New(string(out))
	}
	return path, nil
})

// program returns the path of the fleet program. The first call builds it.
func program(t *testing.T) string {
	t.Helper()
	path, err := buildFleet()
	require.NoError(t, err)
	return path
}

// run runs a program without input, and returns its standard output, its standard error and its exit code.
func run(t *testing.T, env []string, dir string, argv ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), defaultTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var out, errs bytes.Buffer
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = env, dir, &out, &errs
	isolate(cmd)
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		require.NoError(t, err, argv)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// freeAddress returns a loopback address whose port was free a moment ago.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return b
}
