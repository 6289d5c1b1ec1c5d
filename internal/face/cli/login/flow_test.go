package login

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/identity/oidc/oidctest"
)

// TestBrowserRefuses checks that the loopback address refuses requests that do not belong to this sign-in, and that SignInWithBrowser returns the
// issuer's error.
func TestBrowserRefuses(t *testing.T) {
	t.Parallel()
	provider := oidctest.New(t, oidctest.User{Subject: "1", Name: "alice"})
	i, err := discover(t.Context(), provider.URL, oidctest.CLIClientID, []string{"openid"})
	require.NoError(t, err)
	_, err = i.SignInWithBrowser(t.Context(), func(address string) {
		redirect, err := oidctest.Login(t.Context(), "alice", address)
		require.NoError(t, err)
		forged := *redirect
		forged.RawQuery = strings.Replace(redirect.RawQuery, "state=", "state=x", 1)
		for _, u := range []string{forged.String(), "http://" + redirect.Host + "/favicon.ico"} {
			r, err := http.Get(u) //nolint:gosec,noctx // the address of SignInWithBrowser
			require.NoError(t, err)
			require.NoError(t, r.Body.Close())
			require.Equal(t, http.StatusNotFound, r.StatusCode)
		}
		q := redirect.Query()
		q.Del("code")
		q.Set("error", "access_denied")
		redirect.RawQuery = q.Encode()
		r, err := http.Get(redirect.String()) //nolint:noctx // the address of SignInWithBrowser
		require.NoError(t, err)
		require.NoError(t, r.Body.Close())
	})
	require.ErrorContains(t, err, "access_denied")
}
