package login

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/zalando/go-keyring"
	"golang.org/x/oauth2"
)

// TestToken checks that an expired token is refreshed, and only once for all commands that need it at the same time.
func TestToken(t *testing.T) {
	t.Parallel()
	s := Store{Dir: filepath.Join(t.TempDir(), "logins"), NoKeyring: true}
	_, err := s.Token(t.Context(), server, time.Now)
	require.ErrorIs(t, err, ErrSessionEnded)
	provider, _ := signIn(t, s)
	first, err := s.Token(t.Context(), server, time.Now)
	require.NoError(t, err)
	again, err := s.Token(t.Context(), server, time.Now)
	require.NoError(t, err)
	require.Equal(t, first, again)

	provider.SetLifetime(3 * time.Hour)
	later := func() time.Time { return time.Now().Add(2 * time.Hour) }
	fetches := provider.RequestCount("/oauth/token")
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
	require.Equal(t, fetches+1, provider.RequestCount("/oauth/token"), "the token must be refreshed once, because the issuer accepts a refresh token only once")

	provider.RevokeRefreshTokens()
	_, err = s.Token(t.Context(), server, func() time.Time { return time.Now().Add(9 * time.Hour) })
	require.ErrorIs(t, err, ErrSessionEnded)

	provider.Stop()
	_, err = s.Token(t.Context(), server, func() time.Time { return time.Now().Add(9 * time.Hour) })
	require.ErrorContains(t, err, "does not answer")
	require.NotErrorIs(t, err, ErrSessionEnded, "the session must not end because the issuer is down")
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
	_, err = i.refresh(t.Context(), tokens, nil)
	require.ErrorIs(t, err, ErrSessionEnded, "the issuer must have ended the session")
	found, err = s.Forget(t.Context(), server)
	require.NoError(t, err)
	require.False(t, found)

	_, i = signIn(t, s)
	unlock, err := s.lock(server)
	require.NoError(t, err)
	forgetErr := make(chan error, 1)
	go func() {
		_, err := s.Forget(t.Context(), server)
		forgetErr <- err
	}()
	time.Sleep(50 * time.Millisecond) // Forget probably waits for the lock now
	l, tokens, err := s.read(server)
	require.NoError(t, err)
	tokens, err = i.refresh(t.Context(), tokens, func(Tokens) error { return nil })
	require.NoError(t, err)
	_, err = s.write(*l, tokens)
	require.NoError(t, err)
	unlock()
	require.NoError(t, <-forgetErr)
	_, err = i.refresh(t.Context(), tokens, nil)
	require.ErrorIs(t, err, ErrSessionEnded, "the issuer must have ended the session of the renewed tokens")

	provider, _ := signIn(t, s)
	provider.Stop()
	found, err = s.Forget(t.Context(), server)
	require.Error(t, err)
	require.True(t, found)
	l, err = s.Get(server)
	require.NoError(t, err)
	require.Nil(t, l)
}

// roundTripper answers HTTP requests.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestInterruptedRenewal checks that a renewal that is cancelled, or whose new ID token cannot be verified, does not lose the new
// refresh token, because the issuer does not accept the old one again.
func TestInterruptedRenewal(t *testing.T) {
	t.Parallel()
	s := Store{Dir: filepath.Join(t.TempDir(), "logins"), NoKeyring: true}
	signIn(t, s)
	renew := func(ctx context.Context) error {
		_, err := s.Token(ctx, server, func() time.Time { return time.Now().Add(24 * time.Hour) })
		return err
	}
	_, first, err := s.read(server)
	require.NoError(t, err)

	ctx, cancel := context.WithCancel(t.Context())
	client := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodPost {
			cancel() // the request is on its way
		}
		return http.DefaultTransport.RoundTrip(r)
	})}
	require.Error(t, renew(context.WithValue(ctx, oauth2.HTTPClient, client)))
	_, second, err := s.read(server)
	require.NoError(t, err)
	require.NotEqual(t, first.Refresh, second.Refresh, "the new refresh token must be stored")

	client = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		if strings.Contains(r.URL.Path, "keys") {
			return nil, errors.New("no route")
		}
		return http.DefaultTransport.RoundTrip(r)
	})}
	require.ErrorContains(t, renew(context.WithValue(t.Context(), oauth2.HTTPClient, client)), "no route")
	_, third, err := s.read(server)
	require.NoError(t, err)
	require.NotEqual(t, second.Refresh, third.Refresh)
	require.NoError(t, renew(t.Context()), "the stored refresh token must be the one that the issuer accepts")
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
