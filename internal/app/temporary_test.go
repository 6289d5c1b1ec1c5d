package app

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTemporaryFiles checks that the program creates temporary files only with package scratch, or in the allowed places.
// Other temporary files would remain if the program was killed.
func TestTemporaryFiles(t *testing.T) {
	t.Parallel()
	create := regexp.MustCompile(`os\.(MkdirTemp|CreateTemp)\((.*)\)`)
	allowed := map[string]string{
		"internal/scratch/scratch.go":           "removes them later",
		"internal/scratch/temp_file.go":         "removes them later",
		"internal/runner/run_dir.go":            "sweep removes them",
		"internal/runner/worktree/view.go":      "below a directory of package scratch",
		"internal/runner/worktree/mirror.go":    "below a directory of package scratch",
		"internal/runner/repository/checks.go":  "Tidy removes them",
		"internal/runner/remote/bundle.go":      "the file is unlinked at once",
		"internal/unprivileged/unprivileged.go": "only tests use it",
		"internal/runner/shim/socket_other.go":  "a symbolic link, for systems with short paths of sockets",
	}
	for _, path := range files(t, ".go") {
		if strings.HasSuffix(path, "_test.go") || strings.HasSuffix(filepath.Dir(path), "test") || !strings.HasPrefix(path, "internal/") && !strings.HasPrefix(path, "cmd/") {
			continue
		}
		if call := create.FindString(readRepository(t, path)); call != "" {
			require.Contains(t, allowed, path, "it calls %s", call)
		}
	}
}
