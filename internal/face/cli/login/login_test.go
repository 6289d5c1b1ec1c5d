package login

import (
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/zalando/go-keyring"

	"fleet/internal/face/protected"
	"fleet/internal/identity/oidc/oidctest"
)

func TestMain(m *testing.M) {
	keyring.MockInit() // tests must not use the keyring of the person who runs them
	os.Exit(m.Run())
}

const server = "fleet.example.com:8102"

// serveMetadata serves the metadata p, and returns the URL.
func serveMetadata(t *testing.T, p *protected.Resource) string {
	t.Helper()
	s := httptest.NewServer(p)
	t.Cleanup(s.Close)
	return s.URL
}

// signIn signs in with a new issuer and saves the sign-in in the store.
func signIn(t *testing.T, s Store) (*oidctest.Issuer, *Issuer) {
	t.Helper()
	provider := oidctest.New(t, oidctest.User{Subject: "1", Name: "alice"})
	i, err := FindIssuer(t.Context(), http.DefaultClient, serveMetadata(t, &protected.Resource{
		Issuer: provider.URL, CLIClientID: oidctest.CLIClientID, Scopes: []string{"openid", "profile"},
	}))
	require.NoError(t, err)
	tokens, err := i.SignInWithBrowser(t.Context(), func(address string) {
		redirect, err := oidctest.Login(t.Context(), "alice", address)
		require.NoError(t, err)
		go func() {
			if r, err := http.Get(redirect.String()); err == nil { //nolint:gosec,noctx // the address of SignInWithBrowser
				_ = r.Body.Close()
			}
		}()
	})
	require.NoError(t, err)
	require.Equal(t, "alice", tokens.PersonName)
	_, err = s.Save(server, i, tokens)
	require.NoError(t, err)
	return provider, i
}

// TestFindIssuerErrors checks that FindIssuer refuses another server's metadata, and issuers that are not safe or do not answer, and that it says if
// a server has no issuer.
func TestFindIssuerErrors(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]*protected.Resource{
		"set public_url":     {Issuer: "https://issuer.example.com", CLIClientID: "x", PublicURL: "https://other.example.com"},
		"does not use https": {Issuer: "http://issuer.example.com", CLIClientID: "x"},
		"does not answer":    {Issuer: "http://127.0.0.1:1", CLIClientID: "x"},
		"no issuer":          {Issuer: "https://issuer.example.com"},
	} {
		_, err := FindIssuer(t.Context(), http.DefaultClient, serveMetadata(t, p))
		require.ErrorContains(t, err, want)
	}
	withoutMetadata := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(withoutMetadata.Close)
	_, err := FindIssuer(t.Context(), http.DefaultClient, withoutMetadata.URL)
	require.ErrorIs(t, err, ErrNoIssuer)
}
