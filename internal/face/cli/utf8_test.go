package cli

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOnlyUTF8IsSent gives commands arguments and files in Latin-1. They must say which text is wrong, and send nothing.
func TestOnlyUTF8IsSent(t *testing.T) {
	t.Parallel()
	s := newStub(t)
	var called []string
	s.unary = func(_ context.Context, method string, _ any) error { called = append(called, method); return nil }
	server, stop := s.listen(t, "127.0.0.1:0")
	defer stop()
	const latin1 = "caf\xe9"
	dir := t.TempDir()
	file, odd := filepath.Join(dir, "script.sh"), filepath.Join(dir, latin1)
	for _, path := range []string{file, odd} {
		require.NoError(t, os.WriteFile(path, []byte("echo "+latin1+"\n"), 0o600))
	}
	for _, c := range []struct {
		what string
		args []string
	}{
		{"agent name", []string{"agent", "show", latin1}},
		{"name", []string{"agent", "create", latin1, "--project", "shell", "--spec", "x"}},
		{"spec", []string{"agent", "create", "papi", "--project", "shell", "--spec", latin1}},
		{"spec", []string{"agent", "create", "papi", "--project", "shell", "--spec-file", file}},
		{"project", []string{"agent", "list", "--project", latin1}},
		{"description", []string{"task", "start", "papi", latin1}},
		{"description", []string{"task", "start", "papi", "@" + file}},
		{"description", []string{"task", "start", "papi", "@" + odd}},
		{"message", []string{"task", "message", "papi", latin1}},
		{"text", []string{"search", latin1}},
		{"agent name", []string{"watch", "--agent", latin1}},
		{"agent session id", []string{"sessions", "close", latin1}},
		{"message", []string{"sessions", "send", "s1", latin1}},
	} {
		stdout, stderr, code := fleet(server, c.args...)
		require.Equal(t, ExitUsage, code, "%q: %s", c.args, stderr)
		require.Empty(t, stdout, c.args)
		require.Contains(t, stderr, c.what+" is not text in UTF-8; convert it, for example with iconv", c.args)
	}
	require.Empty(t, called)
}
