package app

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/waittest"
)

// TestFirstToken checks that a server logs how to create the first token as long as no token exists.
func TestFirstToken(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Auth = Auth{AuthTokens}
	startupLog := func() string {
		var log bytes.Buffer
		place := fake.New(fake.Config{})
		defer place.Destroy()
		a, err := Open(t.Context(), cfg, Options{Places: []fleet.Place{place}, Log: &log, CloseGrace: waittest.Limit})
		require.NoError(t, err)
		s, err := a.Listen("test")
		require.NoError(t, err)
		s.warnNoToken(t.Context()) // Serve logs no warning, because its context has ended
		ctx, stop := context.WithCancel(t.Context())
		stop()
		require.NoError(t, s.Serve(ctx))
		return log.String()
	}
	require.Contains(t, startupLog(), "nobody can call, because there is no token yet")
	require.Contains(t, startupLog(), "fleet token create me --admin --embedded --data "+cfg.Data)

	place := fake.New(fake.Config{})
	defer place.Destroy()
	a, err := Open(t.Context(), cfg, Options{Places: []fleet.Place{place}})
	require.NoError(t, err)
	root := fleet.WithPrincipal(t.Context(), fleet.Principal{Name: "root", Scope: fleet.ScopeAdmin})
	_, _, _, err = a.service.CreateToken(root, service.CreateTokenRequest{Name: "me", Kind: fleet.KindHuman, Scope: fleet.ScopeAdmin})
	require.NoError(t, err)
	require.NoError(t, a.Close())
	require.NotContains(t, startupLog(), "nobody can call")
}
