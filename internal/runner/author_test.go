package runner_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/runner"
	"fleet/internal/runner/worktree"
)

// TestPlantedGit checks that the server runs the git that was on PATH when it started, and not one that appeared there later.
func TestPlantedGit(t *testing.T) {
	if _, err := worktree.Program(); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	ran := filepath.Join(dir, "ran")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "git"), []byte("#!/bin/sh\ntouch "+ran+"\n"), 0o700))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	runner.GitHomeFiles(os.Environ(), "papi", runner.Author{})
	runner.AuthorVariables(dir, os.Environ(), "papi")
	require.NoFileExists(t, ran)
}
