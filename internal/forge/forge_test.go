package forge

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// install puts a program on PATH. The program appends its arguments and its input to a file, and then runs the script. calls returns
// the content of the file.
func install(t *testing.T, name, script string) (calls func() string) {
	t.Helper()
	dir := t.TempDir()
	log := filepath.Join(dir, "calls")
	text := "#!/bin/sh\n{ printf '%s|' \"$@\"; cat; echo; } >>" + log + "\n" + script
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700)) //nolint:gosec // a program
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return func() string {
		b, err := os.ReadFile(log)
		require.NoError(t, err)
		return string(b)
	}
}

var request = fleet.PullRequest{URL: "git@github.com:ada/shop.git", Branch: "fleet/papi", Into: "main", Title: "Fix it", Text: "It was broken.\n"}

// TestGitHub checks that a branch without a pull request gets one, even if a fork has a pull request of a branch with this name, and that
// a second call returns the same one.
func TestGitHub(t *testing.T) {
	calls := install(t, "gh", `case "$2" in
		list) printf '[{"url":"https://github.com/ada/shop/pull/6","isCrossRepository":true}'
			if [ -e "$0.made" ]; then printf ',{"url":"https://github.com/ada/shop/pull/7","isCrossRepository":false}'; fi; echo ']' ;;
		create) touch "$0.made" ;;
	esac`)
	for range 2 {
		address, err := OpenPullRequest(t.Context(), request)
		require.NoError(t, err)
		require.Equal(t, "https://github.com/ada/shop/pull/7", address)
	}
	list := "pr|list|--repo|github.com/ada/shop|--head|fleet/papi|--state|open|--json|url,isCrossRepository|\n"
	require.Equal(t, list+"pr|create|--repo|github.com/ada/shop|--head|fleet/papi|--base|main|--title|Fix it|--body-file|-|It was broken.\n\n"+list+list, calls())
}

func TestGitLab(t *testing.T) {
	calls := install(t, "glab", `case "$2" in
		list) printf '[{"web_url":"https://gitlab.example.com/a/b/shop/-/merge_requests/6","source_project_id":2,"target_project_id":1}'
			if [ -e "$0.made" ]; then printf ',{"web_url":"https://gitlab.example.com/a/b/shop/-/merge_requests/7","source_project_id":1,"target_project_id":1}'; fi; echo ']' ;;
		create) touch "$0.made" ;;
	esac`)
	r := request
	r.URL, r.Draft = "ssh://git@gitlab.example.com:2222/a/b/shop.git", true
	address, err := OpenPullRequest(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, "https://gitlab.example.com/a/b/shop/-/merge_requests/7", address)
	require.Contains(t, calls(), "mr|create|--repo|gitlab.example.com/a/b/shop|--source-branch|fleet/papi|--target-branch|main|--title|Fix it|--description|It was broken.\n|--yes|--draft|")
}

// TestErrors checks the errors for an unknown forge, and for a program that fails, answers in another form, or is not installed.
func TestErrors(t *testing.T) {
	openError := func(address string) (fleet.Reason, string) {
		r := request
		r.URL = address
		_, err := OpenPullRequest(t.Context(), r)
		require.Error(t, err)
		return fleet.ReasonOf(err), err.Error()
	}
	got, text := openError("https://git.example.com/a/b.git")
	require.Equal(t, fleet.ReasonUnimplemented, got)
	require.Contains(t, text, "git.example.com")

	install(t, "gh", "echo 'HTTP 401: bad token ghp_0123456789 (try again)' >&2; exit 1")
	got, text = openError(request.URL)
	require.Equal(t, fleet.ReasonBackendUnavailable, got)
	require.Contains(t, text, "HTTP 401: bad token *** (try again)")

	install(t, "gh", "echo no JSON")
	got, _ = openError(request.URL)
	require.Equal(t, fleet.ReasonBackendUnavailable, got)

	t.Setenv("PATH", t.TempDir())
	got, text = openError(request.URL)
	require.Equal(t, fleet.ReasonUnimplemented, got)
	require.Contains(t, text, "not installed")
}
