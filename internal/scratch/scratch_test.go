package scratch

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMain makes this program, if SCRATCH_PARENT is set, a process that opens a directory and waits.
func TestMain(m *testing.M) {
	if parent := os.Getenv("SCRATCH_PARENT"); parent != "" {
		d, err := Open(parent)
		if err == nil {
			err = os.MkdirAll(filepath.Join(d.Path(), "deep/er"), 0o700)
		}
		if err != nil {
			panic(err)
		}
		_, _ = os.Stdout.WriteString(d.Path())
		_ = os.Stdout.Close()
		_, _ = os.Stdin.Read(make([]byte, 1))
		return
	}
	os.Exit(m.Run())
}

// TestOpen kills one of two processes. Open must remove the directory of that process, and nothing else.
func TestOpen(t *testing.T) {
	t.Parallel()
	parent := filepath.Join(t.TempDir(), "tmp")
	start := func() (*exec.Cmd, string) {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "SCRATCH_PARENT="+parent)
		_, err := cmd.StdinPipe()
		require.NoError(t, err)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		path := make([]byte, 4096)
		n, err := out.Read(path)
		require.NoError(t, err)
		return cmd, string(path[:n])
	}
	killed, killedDir := start()
	other, otherDir := start()
	require.NoError(t, killed.Process.Kill())
	_ = killed.Wait()
	require.NoError(t, os.WriteFile(filepath.Join(parent, "fleet-file"), nil, 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(parent, "theirs"), 0o700))
	require.DirExists(t, killedDir)
	d, err := Open(parent)
	require.NoError(t, err)
	require.NoDirExists(t, killedDir)
	require.DirExists(t, otherDir)
	require.FileExists(t, filepath.Join(parent, "fleet-file"))
	require.DirExists(t, filepath.Join(parent, "theirs"))
	require.NoError(t, d.Close())
	require.NoDirExists(t, d.Path())
	require.NoError(t, other.Process.Kill())
	_ = other.Wait()
}

// TestOpenConcurrently opens directories concurrently. No call may remove the directory of another.
func TestOpenConcurrently(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	var wg sync.WaitGroup
	dirs := make([]*Dir, 50)
	for i := range dirs {
		wg.Go(func() {
			d, err := Open(parent)
			if err == nil {
				dirs[i] = d
			}
		})
	}
	wg.Wait()
	for _, d := range dirs {
		require.NotNil(t, d)
		require.NoError(t, os.WriteFile(filepath.Join(d.Path(), "x"), nil, 0o600))
	}
}
