package npm

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/gen/openapi"
)

// TestOpenAPI runs an external linter on the OpenAPI document. Warnings also fail the test.
func TestOpenAPI(t *testing.T) {
	skipUnlessSet(t, "TEST_OPENAPI", "lint-openapi", "15 MB of npm packages")
	dir := install(t, "openapi")
	lint := func(document string) ([]byte, error) {
		file := filepath.Join(t.TempDir(), "openapi.json")
		require.NoError(t, os.WriteFile(file, []byte(document), 0o600))
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "node_modules", ".bin", "redocly"), "lint", "--extends=recommended-strict", file)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true")
		return cmd.CombinedOutput()
	}
	out, err := lint(openapi.JSON)
	require.NoError(t, err, string(out))
	_, err = lint(`{"openapi": "3.0.3", "info": {"title": "Fleet", "version": "v1"}, "paths": {}}`)
	require.Error(t, err, "the linter's exit code must show failures")
}
