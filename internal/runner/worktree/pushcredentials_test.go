package worktree

import (
	"net/http"
	"net/http/cgi" //nolint:gosec // only tests import it, and this one chooses the program that it runs
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// TestPushCredentials checks that a push over HTTP uses the credentials of the user of this process, unless the URL of the source has
// a password.
func TestPushCredentials(t *testing.T) {
	t.Parallel()
	root, home, repo := t.TempDir(), t.TempDir(), newRepository(t)
	sh(t, root, "git init -q --bare r.git; git -C r.git config http.receivepack true")
	backend := filepath.Join(strings.TrimSpace(sh(t, root, "git --exec-path")), "git-http-backend")
	if _, err := os.Stat(backend); err != nil {
		t.Skip("git-http-backend is not installed")
	}
	git := &cgi.Handler{Path: backend, Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=x"}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user+":"+password != "server:secret" {
			w.Header().Set("WWW-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		git.ServeHTTP(w, r)
	}))
	defer server.Close()
	url := server.URL + "/r.git"
	sh(t, repo, "git remote add origin "+url)
	setPassword := func(password string) {
		helper := "!f() { test \"$1\" = get && printf 'username=server\\npassword=" + password + "\\n'; }; f"
		text := "[credential " + quoteConfig(server.URL) + "]\n\thelper = " + quoteConfig(helper) + "\n"
		require.NoError(t, os.WriteFile(filepath.Join(home, ".gitconfig"), []byte(text), 0o600))
	}
	g := New(append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+home, "no_proxy=*", "NO_PROXY=*"), t.TempDir())
	p := fleet.Push{Commit: revision(t, repo, "main"), Branch: "main"}
	setPassword("wrongpassword")
	_, err := g.Push(t.Context(), repo, "", p)
	require.Error(t, err)
	require.NotContains(t, err.Error(), "wrongpassword")
	require.Empty(t, sh(t, root, "git -C r.git branch"))
	setPassword("secret")
	_, err = g.Push(t.Context(), repo, "", p)
	require.NoError(t, err)
	require.Contains(t, sh(t, root, "git -C r.git branch"), "main")

	// A password in the URL of the source takes precedence.
	source := strings.Replace(url, "http://", "http://server:secret@", 1)
	mirror := MirrorPath(t.TempDir(), source)
	b, err := g.Branch(t.Context(), mirror, source, "main")
	require.NoError(t, err)
	p.Commit, p.Branch = b.Commit, "third"
	setPassword("wrongpassword")
	pushed, err := g.Push(t.Context(), mirror, source, p)
	require.NoError(t, err)
	require.Equal(t, fleet.PushResult{Remote: "origin", URL: url}, pushed)
}
