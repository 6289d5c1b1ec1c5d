package coder_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/coder/coder/v2/codersdk"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/coder"
)

// userIDStore stores the id of the first Coder user, as Fleet's store does.
type userIDStore struct {
	mu sync.Mutex
	id string
}

func (u *userIDStore) remember(_ context.Context, user string) (string, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.id == "" {
		u.id = user
	}
	return u.id, nil
}

// TestOtherUsersToken replaces the token by a token of another user, to whom Coder shows no workspace. Fleet must not send
// requests as that user, even after a restart of the server, until an operator names the user.
func TestOtherUsersToken(t *testing.T) {
	t.Parallel()
	x := newFakeCoder(t)
	ids := map[string]uuid.UUID{"token-of-fleet": uuid.New(), "token-of-bob": uuid.New()}
	x.ws.OwnerID = ids["token-of-fleet"]
	var mu sync.Mutex
	token := "token-of-fleet"
	var pathsAsBob []string // paths that were requested with bob's token
	x.fault = func(w http.ResponseWriter, r *http.Request) bool {
		sentToken := r.Header.Get(codersdk.SessionTokenHeader)
		if sentToken == "token-of-bob" {
			mu.Lock()
			pathsAsBob = append(pathsAsBob, r.URL.Path)
			mu.Unlock()
		}
		switch {
		case r.URL.Path == "/api/v2/users/me":
			u := codersdk.User{}
			u.ID, u.Username = ids[sentToken], strings.TrimPrefix(sentToken, "token-of-")
			return writeJSON(w, u)
		case sentToken == "token-of-bob" && r.URL.Path == "/api/v2/workspaces":
			return writeJSON(w, codersdk.WorkspacesResponse{})
		case sentToken == "token-of-bob" && strings.HasPrefix(r.URL.Path, "/api/v2/workspaces/"):
			writeError(w, http.StatusNotFound, "Resource not found or you do not have access to this resource")
			return true
		}
		return false
	}
	var store userIDStore
	open := func(user string) *coder.Place {
		return x.open(coder.Config{User: user, RememberUser: store.remember, Token: func(context.Context) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			return token, nil
		}})
	}
	setToken := func(s string) {
		mu.Lock()
		defer mu.Unlock()
		token = s
	}
	a := x.agent()
	p := open("")
	all, err := p.List(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)

	setToken("token-of-bob")
	for _, p := range []*coder.Place{p, open("")} { // the second place is the one after a restart of the server
		_, err = p.List(t.Context())
		require.ErrorIs(t, err, fleet.ErrOtherIdentity)
		require.ErrorContains(t, err, "coder.user")
		_, err = p.Projects(t.Context())
		require.ErrorIs(t, err, fleet.ErrOtherIdentity)
		_, err = p.Inspect(t.Context(), a)
		require.ErrorIs(t, err, fleet.ErrOtherIdentity)
		_, err = p.Delete(t.Context(), a)
		require.ErrorIs(t, err, fleet.ErrOtherIdentity)
	}
	require.Equal(t, []string{"/api/v2/users/me", "/api/v2/users/me"}, pathsAsBob, "nothing else may be requested as bob")

	setToken("token-of-fleet")
	all, err = p.List(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)

	setToken("token-of-bob")
	placeOfBob := open(ids["token-of-bob"].String())
	all, err = placeOfBob.List(t.Context())
	require.NoError(t, err)
	require.Empty(t, all)
	w, err := placeOfBob.Inspect(t.Context(), a)
	require.NoError(t, err)
	require.True(t, w.Missing, "a 404 must not count as a deletion: %+v", w)
}

// TestRenamedUser renames the user of Fleet's token in Coder. The workspaces are still Fleet's, and
// their locations have the new name.
func TestRenamedUser(t *testing.T) {
	t.Parallel()
	x, p := newFakePlace(t)
	all, err := p.List(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)
	x.update(func() { x.ws.OwnerName = "renamed" })
	all, err = p.List(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Contains(t, all[0].Location, "@renamed/")
	w, err := p.Inspect(t.Context(), x.agent())
	require.NoError(t, err)
	require.False(t, w.Missing)
}

// TestUserOfConfig checks that coder.user must be an id.
func TestUserOfConfig(t *testing.T) {
	t.Parallel()
	_, err := coder.New(coder.Config{URL: "http://coder.test", User: "bob", Token: func(context.Context) (string, error) { return "t", nil }})
	require.ErrorContains(t, err, `coder.user is "bob"`)
}
