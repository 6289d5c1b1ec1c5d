package app

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/store/postgres/pgtest"
)

// TestMigrate checks the states that are reported before and after `fleet migrate up`.
func TestMigrate(t *testing.T) {
	t.Parallel()
	for name, env := range map[string]func(t *testing.T) string{
		"sqlite":   func(t *testing.T) string { return "FLEET_DATA=" + filepath.Join(t.TempDir(), "data") },
		"postgres": func(t *testing.T) string { return "FLEET_STORE=" + pgtest.EmptyURL(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := []string{env(t)}
			code, stdout, stderr := runCommand(t.Context(), env, "migrate", "status")
			require.Zero(t, code, stderr)
			require.Contains(t, stdout, "fleet migrate up")
			code, stdout, stderr = runCommand(t.Context(), env, "migrate", "up")
			require.Zero(t, code, stderr)
			require.Contains(t, stdout, "up to date")
			code, stdout, stderr = runCommand(t.Context(), env, "migrate", "status")
			require.Zero(t, code, stderr)
			require.Contains(t, stdout, "up to date")
		})
	}
}

// TestPasswordOfTheStore checks that the URL of a store with a password is refused on the command line, and that no output
// contains the password.
func TestPasswordOfTheStore(t *testing.T) {
	t.Parallel()
	const url = "postgres://fleet:hunter2@127.0.0.1:1/fleet"
	code, _, stderr := runCommand(t.Context(), nil, "migrate", "status", "--store", url)
	require.NotZero(t, code)
	require.Contains(t, stderr, "FLEET_STORE")
	require.NotContains(t, stderr, "hunter2")
	code, stdout, stderr := runCommand(t.Context(), []string{"FLEET_STORE=" + url}, "migrate", "status")
	require.NotZero(t, code)
	require.NotContains(t, stdout+stderr, "hunter2")
	for _, bad := range []string{"postgres://fleet:hunter2@[::1/fleet", "postgers://fleet:hunter2@h/fleet", "postgres://fleet:hunter2@h:x/fleet?sslmode=no"} {
		code, _, stderr := runCommand(t.Context(), []string{"FLEET_STORE=" + bad}, "migrate", "up")
		require.NotZero(t, code)
		require.NotContains(t, stderr, "hunter2")
	}
}
