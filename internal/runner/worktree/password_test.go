package worktree

import (
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPasswordIsInNoCommandLine fetches from a server that requires a password. It reads the command lines of all
// processes while git talks to the server. None may contain the password.
func TestPasswordIsInNoCommandLine(t *testing.T) {
	t.Parallel()
	path, err := exec.Command("git", "--exec-path").Output()
	require.NoError(t, err)
	backend := filepath.Join(strings.TrimSpace(string(path)), "git-http-backend")
	if _, err := os.Stat(backend); err != nil {
		t.Skip("git has no http-backend here")
	}
	const password = "p%40ss-canary" //nolint:gosec // only this test uses it
	origin := newRepository(t)
	git := &cgi.Handler{Path: backend, Env: []string{
		"GIT_PROJECT_ROOT=" + filepath.Dir(origin), "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=me",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
	}}
	var served, leaks atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, path := range paths {
			if b, _ := os.ReadFile(path); strings.Contains(string(b), "ss-canary") {
				leaks.Add(1)
			}
		}
		if user, sent, _ := r.BasicAuth(); user != "me" || sent != "p@ss-canary" {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		served.Add(1)
		git.ServeHTTP(w, r)
	}))
	defer server.Close()
	source := strings.Replace(server.URL, "://", "://me:"+password+"@", 1) + "/" + filepath.Base(origin) + "/.git"
	g := New(os.Environ(), t.TempDir())
	mirror := MirrorPath(filepath.Join(t.TempDir(), "repositories"), source)
	require.NoError(t, g.Fetch(t.Context(), source, mirror))
	tree := newTree(t, mirror, "fleet/papi-1")
	require.NoError(t, g.Add(t.Context(), tree, ""))
	require.Equal(t, "one\n", sh(t, tree.Dir, "cat file"))
	require.NoError(t, g.Fetch(t.Context(), source, mirror))
	require.Positive(t, served.Load())
	require.Zero(t, leaks.Load())
	require.Contains(t, sh(t, tree.Dir, "git ls-remote origin"), "refs/heads/main", "agents must reach the remote repository with the password")
}
