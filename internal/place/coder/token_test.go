package coder_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/coder/coder/v2/codersdk"
	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/coder"
)

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
