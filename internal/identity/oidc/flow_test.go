package oidc

import (
	"context"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2"

	"fleet/internal/fleet"
	"fleet/internal/identity/oidc/oidctest"
)

// TestFlow signs in with the authorization code flow, refreshes, and ends the session.
func TestFlow(t *testing.T) {
	t.Parallel()
	const redirect = "http://127.0.0.1:1/session/oidc/callback"
	testIssuer := oidctest.New(t, alice)
	i := newIssuer(t, testIssuer, func(c *Config) { c.Scopes = []string{"openid", "profile"} })
	i.config.ClientSecret = oidctest.ClientSecret
	signIn := func() string {
		address, err := i.AuthURL(t.Context(), redirect, "the-state", "the-nonce", "the-verifier-the-verifier-the-verifier-the-verifier")
		require.NoError(t, err)
		require.Contains(t, address, "code_challenge_method=S256")
		require.NotContains(t, address, "the-verifier")
		u, err := oidctest.Login(t.Context(), "alice", address)
		require.NoError(t, err)
		require.Equal(t, "the-state", u.Query().Get("state"))
		return u.Query().Get("code")
	}
	token, refresh, err := i.Exchange(t.Context(), redirect, signIn(), "the-nonce", "the-verifier-the-verifier-the-verifier-the-verifier")
	require.NoError(t, err)
	p, err := i.Authenticate(t.Context(), token)
	require.NoError(t, err)
	require.Contains(t, p.Name, "alice")

	testIssuer.SetLifetime(2 * time.Hour)
	recordSubject := i.recordSubject
	i.recordSubject = func(context.Context, fleet.Subject) (string, error) {
		return "", fleet.Errorf(fleet.ReasonBackendUnavailable, "the database does not answer")
	}
	_, refresh, err = i.Refresh(t.Context(), refresh)
	require.NoError(t, err, "a failure that may pass must not lose the new refresh token")
	i.recordSubject = recordSubject
	newToken, newRefresh, err := i.Refresh(t.Context(), refresh)
	require.NoError(t, err)
	newPrincipal, err := i.Authenticate(t.Context(), newToken)
	require.NoError(t, err)
	require.Equal(t, p.Name, newPrincipal.Name)
	require.True(t, newPrincipal.ExpiresAt.After(p.ExpiresAt))
	endURL, err := i.EndSessionURL(t.Context(), newToken)
	require.NoError(t, err)
	u, err := url.Parse(endURL)
	require.NoError(t, err)
	require.Equal(t, "/end_session", u.Path)
	require.Equal(t, url.Values{"id_token_hint": {newToken}, "client_id": {oidctest.ClientID}}, u.Query())
	resp, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Get(endURL) //nolint:noctx // a test's own issuer
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Less(t, resp.StatusCode, 400, "the issuer must accept the address")
	_, _, err = i.Refresh(t.Context(), newRefresh)
	require.Equal(t, fleet.ReasonUnauthenticated, fleet.ReasonOf(err), "%v", err)
	endURL, err = i.EndSessionURL(t.Context(), "fleet_token")
	require.NoError(t, err)
	require.Empty(t, endURL, "there must be no address for a token that is not the issuer's")

	for name, wrong := range map[string]struct{ nonce, verifier string }{
		"another nonce":    {"other", "the-verifier-the-verifier-the-verifier-the-verifier"},
		"another verifier": {"the-nonce", "another-verifier-another-verifier-another-verifier"},
	} {
		_, _, err := i.Exchange(t.Context(), redirect, signIn(), wrong.nonce, wrong.verifier)
		require.Equal(t, fleet.ReasonUnauthenticated, fleet.ReasonOf(err), "%s: %v", name, err)
	}

	i.config.ClientSecret = "wrong"
	_, _, err = i.Exchange(t.Context(), redirect, signIn(), "the-nonce", "the-verifier-the-verifier-the-verifier-the-verifier")
	require.ErrorContains(t, err, "refused this server's client")
	require.Equal(t, fleet.ReasonBackendUnavailable, fleet.ReasonOf(err))
}

// TestFailingTokenEndpoint checks that a token endpoint that fails or limits requests is not reported as a wrong client.
func TestFailingTokenEndpoint(t *testing.T) {
	t.Parallel()
	i := newIssuer(t, oidctest.New(t, alice), nil)
	for code, text := range map[int]string{
		http.StatusServiceUnavailable: "cannot be reached", http.StatusTooManyRequests: "cannot be reached", http.StatusUnauthorized: "refused this server's client",
	} {
		err := i.exchangeError(t.Context(), &oauth2.RetrieveError{Response: &http.Response{StatusCode: code}})
		require.Equal(t, fleet.ReasonBackendUnavailable, fleet.ReasonOf(err), code)
		require.ErrorContains(t, err, text, code)
	}
}
