package coder_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/coder/v2/codersdk"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/coder"
	"fleet/internal/runner/remote"
)

// userMap maps the ids of Coder users to principals.
type userMap map[string]string

func (u userMap) UserOf(_ context.Context, principal string) (string, error) {
	for id, p := range u {
		if p == principal {
			return id, nil
		}
	}
	return "", nil
}

func (u userMap) PrincipalOf(_ context.Context, id, _ string) (string, error) { return u[id], nil }

// TestWorkspacesOfUsers checks that a workspace is created for the Coder user that the principal has signed in as, even if the
// user has been renamed, and that List returns the principal as the workspace's owner.
func TestWorkspacesOfUsers(t *testing.T) {
	t.Parallel()
	alice := uuid.New()
	x := newFakeCoder(t)
	created := make(chan string, 1)
	x.fault = func(w http.ResponseWriter, r *http.Request) bool {
		user, what, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/api/v2/users/"), "/")
		switch {
		case what == "keys/tokens":
			w.WriteHeader(http.StatusCreated)
			return writeJSON(w, codersdk.GenerateAPIKeyResponse{Key: "key-of-" + user})
		case what == "workspaces" && r.Method == http.MethodPost:
			created <- user + " with " + r.Header.Get(codersdk.SessionTokenHeader)
			x.ws.OwnerID, x.ws.OwnerName = alice, "alice2"
			w.WriteHeader(http.StatusCreated)
			return writeJSON(w, x.ws)
		case strings.HasPrefix(what, "workspace/"):
			writeError(w, http.StatusNotFound, "no")
			return true
		case strings.HasPrefix(what, "keys/"):
			w.WriteHeader(http.StatusNoContent)
			return true
		}
		return false
	}
	p := x.open(coder.Config{Users: userMap{alice.String(): "coder:alice"}})

	a := x.agent()
	a.Owner, a.WorkspaceID = "coder:alice", ""
	w, err := p.Provision(t.Context(), a)
	require.NoError(t, err)
	require.Equal(t, alice.String()+" with key-of-"+alice.String(), <-created)
	require.Equal(t, "coder:alice", w.Owner)
	all, err := p.List(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, "coder:alice", all[0].Owner)

	a.UID, a.Owner = "another", "oidc:bob"
	_, err = p.Provision(t.Context(), a)
	requireError(t, err, fleet.ReasonInvalidArgument, `"oidc:bob" is not a Coder user`)
}

// answerTokens answers requests that create or revoke a token, and counts the tokens. The tokens are key-1, key-2 and so on. It returns
// false for other requests.
func answerTokens(w http.ResponseWriter, r *http.Request, created *atomic.Int32) bool {
	switch {
	case strings.HasSuffix(r.URL.Path, "/keys/tokens"):
		w.WriteHeader(http.StatusCreated)
		return writeJSON(w, codersdk.GenerateAPIKeyResponse{Key: fmt.Sprint("key-", created.Add(1))})
	case strings.Contains(r.URL.Path, "/keys/"):
		w.WriteHeader(http.StatusNoContent)
		return true
	}
	return false
}

// TestRevokedTokenOfOwner revokes the token that Fleet created for the owner of a workspace. The next call must create another
// token.
func TestRevokedTokenOfOwner(t *testing.T) {
	t.Parallel()
	alice := uuid.New()
	x := newFakeCoder(t)
	x.ws.OwnerID, x.ws.OwnerName = alice, "alice"
	var createdTokens atomic.Int32
	x.fault = func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case answerTokens(w, r, &createdTokens):
			return true
		case r.Header.Get(codersdk.SessionTokenHeader) == "key-1":
			writeError(w, http.StatusUnauthorized, "You are signed out or your session has expired.")
			return true
		}
		return false
	}
	p := x.open(coder.Config{Owner: coder.OwnerPrincipal})
	requireReason(t, p.Stop(t.Context(), x.agent()), fleet.ReasonBackendUnavailable)
	require.NoError(t, p.Stop(t.Context(), x.agent()))
	require.Equal(t, int32(2), createdTokens.Load())
}

// TestAnswersOfApps makes the apps in a workspace answer with 401 and 429. These answers must affect neither the token of the
// workspace's owner nor requests about other workspaces.
func TestAnswersOfApps(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]int{"the signature is refused": http.StatusUnauthorized, "too many requests": http.StatusTooManyRequests} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newFakeCoder(t)
			x.addRunner()
			x.ws.OwnerID, x.ws.OwnerName = uuid.New(), "alice"
			var createdTokens atomic.Int32
			x.fault = func(w http.ResponseWriter, r *http.Request) bool {
				switch {
				case answerTokens(w, r, &createdTokens):
					return true
				case strings.Contains(r.URL.Path, "/apps/fleet-runner/"):
					w.Header().Set(remote.VersionHeader, "v1")
					w.Header().Set("Retry-After", "60")
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(status)
					return writeJSON(w, map[string]string{"code": map[int]string{401: "unauthenticated", 429: "resource_exhausted"}[status]})
				}
				return false
			}
			p := x.open(coder.Config{Owner: coder.OwnerPrincipal, Now: func() time.Time { return time.Now().Add(time.Duration(x.clockOffset.Add(int64(time.Second)))) }})
			for range 2 {
				require.Error(t, p.Connect(x.agent()).Dispatch(t.Context(), x.newRun("Say it.")))
				require.NoError(t, p.Stop(t.Context(), x.agent()))
			}
			require.Positive(t, x.count("POST Handshake"))
			require.Equal(t, int32(1), createdTokens.Load())
		})
	}
}
