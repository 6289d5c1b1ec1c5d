package coder_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coder/coder/v2/codersdk"
	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/coder"
)

// TestFindToken checks the order of the sources of the token and of the URL: file, environment, login.
func TestFindToken(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	login := filepath.Join(home, "login")
	require.NoError(t, os.MkdirAll(login, 0o700))
	environ := func(kv map[string]string) func(string) string { return func(k string) string { return kv[k] } }
	find := func(getenv func(string) string, file string) (string, error) {
		return coder.FindToken(getenv, home, file)(t.Context())
	}

	_, err := find(environ(nil), "")
	require.ErrorContains(t, err, "coder login")
	require.NoError(t, os.WriteFile(filepath.Join(login, "session"), []byte("from-login\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(login, "url"), []byte("https://login.example.com\n"), 0o600))
	env := map[string]string{"CODER_CONFIG_DIR": login}
	got, err := find(environ(env), "")
	require.NoError(t, err)
	require.Equal(t, "from-login", got)
	require.Equal(t, "https://login.example.com", coder.FindURL(environ(env), home))

	env["CODER_SESSION_TOKEN"], env["CODER_URL"] = "from-env", "https://env.example.com"
	got, err = find(environ(env), "")
	require.NoError(t, err)
	require.Equal(t, "from-env", got)
	require.Equal(t, "https://env.example.com", coder.FindURL(environ(env), home))

	file := filepath.Join(home, "token")
	_, err = find(environ(env), file)
	require.ErrorContains(t, err, file)
	require.NoError(t, os.WriteFile(file, []byte("from-file"), 0o600))
	got, err = find(environ(env), file)
	require.NoError(t, err)
	require.Equal(t, "from-file", got)
	require.Empty(t, coder.FindURL(environ(nil), home))
}

// TestRefusedToken checks that errors about the token say what is wrong with it, and where it comes from.
func TestRefusedToken(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file         string
		env          string
		fault        func(w http.ResponseWriter, r *http.Request) bool
		messageParts []string
	}{
		"revoked, in a file":          {file: "/etc/fleet/coder-token", fault: answerRevoked, messageParts: []string{"expired or revoked", "/etc/fleet/coder-token", "coder.token_file"}},
		"revoked, in the environment": {env: "t", fault: answerRevoked, messageParts: []string{"expired or revoked", "CODER_SESSION_TOKEN"}},
		"revoked, in a login":         {fault: answerRevoked, messageParts: []string{"expired or revoked", "coder login"}},
		"without the needed scopes":   {fault: answerScoped, messageParts: []string{"scopes are limited", "without --scope"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newFakeCoder(t)
			x.fault = c.fault
			getenv := func(key string) string { return map[string]string{"CODER_SESSION_TOKEN": c.env}[key] }
			p := x.open(coder.Config{RenewHint: coder.RenewTokenHint(getenv, "/home/fleet", c.file)})
			for what, call := range map[string]func() error{
				"projects": func() error { _, err := p.Projects(t.Context()); return err },
				"list":     func() error { _, err := p.List(t.Context()); return err },
				"examine":  func() error { _, err := p.Examine(t.Context()); return err },
			} {
				err := call()
				require.Equal(t, fleet.ReasonBackendUnavailable, fleet.ReasonOf(err), "%s: %v", what, err)
				require.ErrorIs(t, err, coder.ErrToken)
				for _, words := range c.messageParts {
					require.ErrorContains(t, err, words, what)
				}
				require.NotContains(t, err.Error(), "secret")
			}
		})
	}
}

// answerRevoked answers like Coder to a token that was revoked.
func answerRevoked(w http.ResponseWriter, r *http.Request) bool {
	if r.URL.Path == "/api/v2/buildinfo" {
		return writeJSON(w, codersdk.BuildInfoResponse{Version: "v2.30.0"})
	}
	writeError(w, http.StatusUnauthorized, "You are signed out or your session has expired. Please sign in again to continue.")
	return true
}

// answerScoped answers like Coder to a token whose only scope is workspace:read.
func answerScoped(w http.ResponseWriter, r *http.Request) bool {
	switch path := strings.TrimPrefix(r.URL.Path, "/api/v2/"); path {
	case "buildinfo":
		return writeJSON(w, codersdk.BuildInfoResponse{Version: "v2.30.0"})
	case "templates":
		return writeJSON(w, []codersdk.Template{})
	case "workspaces":
		return writeJSON(w, codersdk.WorkspacesResponse{})
	}
	writeError(w, http.StatusNotFound, "Resource not found or you do not have access to this resource")
	return true
}
