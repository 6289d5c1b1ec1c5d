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

// TestExpiry checks that the secret of a token authenticates its principal only until the token expires.
func TestExpiry(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var mu sync.Mutex
	h := servicetest.New(t, fake.Config{}, func(c *state.Config) {
		c.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	})
	_, secret, _, err := h.CreateToken(servicetest.AsAdmin(t.Context()), service.CreateTokenRequest{Name: "ci", Kind: fleet.KindController, Scope: fleet.ScopeRun, TTL: time.Hour})
	require.NoError(t, err)
	p, err := h.Authenticate(t.Context(), secret)
	require.NoError(t, err)
	require.Equal(t, now.Add(time.Hour).Unix(), p.ExpiresAt.Unix())
	mu.Lock()
	now = now.Add(2 * time.Hour)
	mu.Unlock()
	_, err = h.Authenticate(t.Context(), secret)
	require.Equal(t, fleet.ReasonUnauthenticated, fleet.ReasonOf(err))
	_, err = h.Authenticate(t.Context(), secret+"x")
	require.Equal(t, fleet.ReasonUnauthenticated, fleet.ReasonOf(err))
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
