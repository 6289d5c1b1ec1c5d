package worktree

import (
	"net/http"
	"net/http/cgi" //nolint:gosec // only a test needs it, and with the name of the program that it runs
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// TestPushCredentials pushes over HTTP. The credentials of the person who pushes count, and those of the server's user do not replace them if
// they are wrong, wherever git looks for them.
func TestPushCredentials(t *testing.T) {
	t.Parallel()
	root, home, repo := t.TempDir(), t.TempDir(), repository(t)
	sh(t, root, "git init -q --bare r.git; git -C r.git config http.receivepack true")
	backend := filepath.Join(strings.TrimSpace(sh(t, root, "git --exec-path")), "git-http-backend")
	if _, err := os.Stat(backend); err != nil {
		t.Skip("git-http-backend is not installed")
	}
	git := &cgi.Handler{Path: backend, Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=x"}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user+":"+password != "person:right" && user+":"+password != "server:secret" {
			w.Header().Set("WWW-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		git.ServeHTTP(w, r)
	}))
	defer server.Close()
	url := server.URL + "/r.git"
	sh(t, repo, "git remote add origin "+url)
	helper := func(user, password string) string {
		return "!f() { test \"$1\" = get && printf 'username=" + user + "\\npassword=" + password + "\\n'; }; f"
	}
	host := strings.TrimPrefix(server.URL, "http://")
	files := map[string]string{
		".netrc":     "machine " + strings.Split(host, ":")[0] + " login server password secret\n",
		".gitconfig": "[credential]\n\thelper = " + quoteConfig(helper("server", "secret")) + "\n[credential " + quoteConfig(server.URL) + "]\n\thelper = " + quoteConfig(helper("server", "secret")) + "\n",
	}
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(home, name), []byte(text), 0o600))
	}
	g := New(append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+home, "no_proxy=*", "NO_PROXY=*"), t.TempDir())
	p := fleet.Push{Commit: revision(t, repo, "main"), Branch: "main"}
	env := func(user, password string) []string {
		return []string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=credential.helper", "GIT_CONFIG_VALUE_0=" + helper(user, password)}
	}
	p.Env = env("person", "wrongpassword")
	_, err := g.Push(t.Context(), repo, "", p)
	require.Error(t, err)
	require.NotContains(t, err.Error(), "wrongpassword")
	require.Empty(t, sh(t, root, "git -C r.git branch"))
	p.Env = []string{"UNRELATED=variable"}
	_, err = g.Push(t.Context(), repo, "", p)
	require.Error(t, err)
	require.Empty(t, sh(t, root, "git -C r.git branch"))
	p.Env = env("person", "right")
	_, err = g.Push(t.Context(), repo, "", p)
	require.NoError(t, err)
	require.Contains(t, sh(t, root, "git -C r.git branch"), "main")
	p.Env, p.Branch = nil, "other"
	_, err = g.Push(t.Context(), repo, "", p)
	require.NoError(t, err, "without other credentials, those of the server's user count")

	// The same for a source whose URL has the password of the server.
	source := strings.Replace(url, "http://", "http://server:secret@", 1)
	mirror := Mirror(t.TempDir(), source)
	b, err := g.Branch(t.Context(), mirror, source, "main")
	require.NoError(t, err)
	p.Commit, p.Branch, p.Env = b.Commit, "third", env("person", "wrongpassword")
	_, err = g.Push(t.Context(), mirror, source, p)
	require.Error(t, err)
	p.Env = nil
	pushed, err := g.Push(t.Context(), mirror, source, p)
	require.NoError(t, err)
	require.Equal(t, fleet.Pushed{Remote: "origin", URL: url}, pushed)
}
