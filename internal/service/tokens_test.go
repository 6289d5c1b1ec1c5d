package service_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
	"fleet/internal/state"
)

// TestTokens checks that the secret of a token authenticates its principal until the token expires, that names of tokens are unique,
// and that lists do not contain secrets.
func TestTokens(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var mu sync.Mutex
	h := servicetest.New(t, fake.Config{}, func(c *state.Config) {
		c.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	})
	root := servicetest.AsAdmin(t.Context())
	_, secret, _, err := h.CreateToken(root, service.CreateTokenRequest{Name: "ci", Kind: fleet.KindController, Scope: fleet.ScopeRun, TTL: time.Hour})
	require.NoError(t, err)
	p, err := h.Authenticate(t.Context(), secret)
	require.NoError(t, err)
	require.Equal(t, "ci", p.Name)
	require.Equal(t, fleet.KindController, p.Kind)
	require.Equal(t, fleet.ScopeRun, p.Scope)
	require.Equal(t, now.Add(time.Hour).Unix(), p.ExpiresAt.Unix())
	_, _, _, err = h.CreateToken(root, service.CreateTokenRequest{Name: "ci", Kind: fleet.KindHuman})
	require.Equal(t, fleet.ReasonTokenExists, fleet.ReasonOf(err))
	mu.Lock()
	now = now.Add(2 * time.Hour)
	mu.Unlock()
	_, err = h.Authenticate(t.Context(), secret)
	require.Equal(t, fleet.ReasonUnauthenticated, fleet.ReasonOf(err))
	_, err = h.Authenticate(t.Context(), secret+"x")
	require.Equal(t, fleet.ReasonUnauthenticated, fleet.ReasonOf(err))
	_, err = h.RevokeToken(root, "ci")
	require.NoError(t, err)
	_, err = h.RevokeToken(root, "nope")
	require.Equal(t, fleet.ReasonTokenNotFound, fleet.ReasonOf(err))
	tokens, err := h.ListTokens(root)
	require.NoError(t, err)
	require.Len(t, tokens, 1)
	require.NotContains(t, fmt.Sprintf("%+v", tokens[0]), secret)
}

// TestTokenOfUnknownKind checks that a token of an unknown kind is refused.
func TestTokenOfUnknownKind(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	for _, kind := range []fleet.PrincipalKind{"", "robot", "99"} {
		_, _, _, err := h.CreateToken(servicetest.AsAdmin(t.Context()), service.CreateTokenRequest{Name: "x", Kind: kind})
		require.Equal(t, fleet.ReasonInvalidArgument, fleet.ReasonOf(err), fmt.Sprint(kind))
	}
}
