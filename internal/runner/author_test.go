package runner_test

import (
	"os"
	"os/exec"
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

// TestAuthorGitConfig checks that git reads the author's name from the configuration.
func TestAuthorGitConfig(t *testing.T) {
	t.Parallel()
	git, err := worktree.Program()
	if err != nil {
		t.Skip(err)
	}
	file := filepath.Join(t.TempDir(), "config")
	for name, want := range map[string]string{
		"Zoë":                       "Zoë",
		"山田\u3000太郎":                "山田\u3000太郎",
		"Andr\xe9":                  "Andr\xe9",
		"C:\\\"x\"\ty # z; \\t":     "C:\\\"x\"\ty # z; \\t",
		"a\nb":                      "a\nb",
		"bell\a, escape\x1b, \x7f.": "bell, escape, .",
	} {
		require.NoError(t, os.WriteFile(file, []byte(runner.Author{Name: name}.GitConfig()), 0o600))
		out, err := exec.Command(git, "config", "-z", "-f", file, "user.name").CombinedOutput()
		require.NoError(t, err, "%q: %s", name, out)
		require.Equal(t, want+"\x00", string(out))
	}
}
