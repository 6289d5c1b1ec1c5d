package login

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

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

// signIn signs in with a new issuer and keeps the sign-in in the store.
func signIn(t *testing.T, s Store) (*oidctest.Issuer, *Issuer) {
	t.Helper()
	provider := oidctest.New(t, oidctest.User{Subject: "1", Name: "alice"})
	i, err := Find(t.Context(), http.DefaultClient, serveMetadata(t, &protected.Resource{
		Issuer: provider.URL, CLIClientID: oidctest.CLIClientID, Scopes: []string{"openid", "profile"},
	}))
	require.NoError(t, err)
	tokens, err := i.Browser(t.Context(), func(address string) {
		back, err := oidctest.Login(t.Context(), "alice", address)
		require.NoError(t, err)
		go func() {
			if r, err := http.Get(back.String()); err == nil { //nolint:gosec,noctx // the address of Browser
				_ = r.Body.Close()
			}
		}()
	})
	require.NoError(t, err)
	require.Equal(t, "alice", tokens.Who)
	_, err = s.Keep(server, i, tokens)
	require.NoError(t, err)
	return provider, i
}

// TestToken checks that an expired token is refreshed, and only once for all commands that need it at the same time.
func TestToken(t *testing.T) {
	t.Parallel()
	s := Store{Dir: filepath.Join(t.TempDir(), "logins"), NoKeyring: true}
	_, err := s.Token(t.Context(), server, time.Now)
	require.ErrorIs(t, err, ErrEnded)
	real, _ := signIn(t, s)
	first, err := s.Token(t.Context(), server, time.Now)
	require.NoError(t, err)
	again, err := s.Token(t.Context(), server, time.Now)
	require.NoError(t, err)
	require.Equal(t, first, again)

	real.SetLifetime(3 * time.Hour)
	later := func() time.Time { return time.Now().Add(2 * time.Hour) }
	fetches := real.RequestCount("/oauth/token")
	var all sync.WaitGroup
	tokens := make([]string, 5)
	for n := range tokens {
		all.Go(func() { tokens[n], _ = s.Token(t.Context(), server, later) })
	}
	all.Wait()
	for _, token := range tokens {
		require.NotEmpty(t, token)
		require.Equal(t, tokens[0], token)
	}
	require.NotEqual(t, first, tokens[0])
	require.Equal(t, fetches+1, real.RequestCount("/oauth/token"), "the token must be refreshed once, because the issuer accepts a refresh token only once")

	real.RevokeRefreshTokens()
	_, err = s.Token(t.Context(), server, func() time.Time { return time.Now().Add(9 * time.Hour) })
	require.ErrorIs(t, err, ErrEnded)

	real.Stop()
	_, err = s.Token(t.Context(), server, func() time.Time { return time.Now().Add(9 * time.Hour) })
	require.ErrorContains(t, err, "does not answer")
	require.NotErrorIs(t, err, ErrEnded, "the session must not end because the issuer is down")
}

// TestForget checks that a sign-out removes the login and ends the session with the issuer.
func TestForget(t *testing.T) {
	t.Parallel()
	s := Store{Dir: t.TempDir(), NoKeyring: true}
	_, i := signIn(t, s)
	_, tokens, err := s.read(server)
	require.NoError(t, err)
	found, err := s.Forget(t.Context(), server)
	require.NoError(t, err)
	require.True(t, found)
	_, err = i.refresh(t.Context(), tokens)
	require.ErrorIs(t, err, ErrEnded, "the issuer must have ended the session")
	found, err = s.Forget(t.Context(), server)
	require.NoError(t, err)
	require.False(t, found)

	real, _ := signIn(t, s)
	real.Stop()
	found, err = s.Forget(t.Context(), server)
	require.Error(t, err)
	require.True(t, found)
	l, err := s.Get(server)
	require.NoError(t, err)
	require.Nil(t, l)
}

// TestWhereTokensAre checks that the tokens are only in the keyring, or in a file that only its owner can read.
func TestWhereTokensAre(t *testing.T) {
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unused") // so that hasKeyring returns true
	s := Store{Dir: filepath.Join(t.TempDir(), "logins")}
	signIn(t, s)
	text, err := os.ReadFile(s.file(server))
	require.NoError(t, err)
	token, err := s.Token(t.Context(), server, time.Now)
	require.NoError(t, err)
	require.NotContains(t, string(text), token)
	require.NotContains(t, string(text), "refresh_token")
	secret, err := keyring.Get(keyringService, server)
	require.NoError(t, err)
	require.Contains(t, secret, token)
	_, err = s.Forget(t.Context(), server)
	require.NoError(t, err)
	_, err = keyring.Get(keyringService, server)
	require.ErrorIs(t, err, keyring.ErrNotFound)

	s.NoKeyring = true
	signIn(t, s)
	text, err = os.ReadFile(s.file(server))
	require.NoError(t, err)
	require.Contains(t, string(text), "refresh_token")
	info, err := os.Stat(s.file(server))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	files, err := os.ReadDir(s.Dir)
	require.NoError(t, err)
	require.Len(t, files, 2, "only the login and its lock may be left")
}

// TestFindDistrusts checks that Find refuses metadata of another server and issuers that are not safe.
func TestFindDistrusts(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]*protected.Resource{
		"set public_url":     {Issuer: "https://issuer.example.com", CLIClientID: "x", PublicURL: "https://other.example.com"},
		"does not use https": {Issuer: "http://issuer.example.com", CLIClientID: "x"},
		"does not answer":    {Issuer: "http://127.0.0.1:1", CLIClientID: "x"},
		"no issuer":          {Issuer: "https://issuer.example.com"},
	} {
		_, err := Find(t.Context(), http.DefaultClient, serveMetadata(t, p))
		require.ErrorContains(t, err, want)
	}
	gone := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(gone.Close)
	_, err := Find(t.Context(), http.DefaultClient, gone.URL)
	require.ErrorIs(t, err, ErrNoIssuer)
}

// TestBrowserRefuses checks that the loopback address refuses requests that do not belong to this sign-in.
func TestBrowserRefuses(t *testing.T) {
	t.Parallel()
	real := oidctest.New(t, oidctest.User{Subject: "1", Name: "alice"})
	i, err := discover(t.Context(), real.URL, oidctest.CLIClientID, []string{"openid"})
	require.NoError(t, err)
	_, err = i.Browser(t.Context(), func(address string) {
		back, err := oidctest.Login(t.Context(), "alice", address)
		require.NoError(t, err)
		forged := *back
		forged.RawQuery = strings.Replace(back.RawQuery, "state=", "state=x", 1)
		for _, u := range []string{forged.String(), "http://" + back.Host + "/favicon.ico"} {
			r, err := http.Get(u) //nolint:gosec,noctx // the address of Browser
			require.NoError(t, err)
			require.NoError(t, r.Body.Close())
			require.Equal(t, http.StatusNotFound, r.StatusCode)
		}
		q := back.Query()
		q.Del("code")
		q.Set("error", "access_denied")
		back.RawQuery = q.Encode()
		r, err := http.Get(back.String()) //nolint:noctx // the address of Browser
		require.NoError(t, err)
		require.NoError(t, r.Body.Close())
	})
	require.ErrorContains(t, err, "access_denied")
}
