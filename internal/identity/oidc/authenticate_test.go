package oidc

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/identity/oidc/oidctest"
)

var alice = oidctest.User{Subject: "248289761001", Name: "alice", Email: "alice@example.com", EmailVerified: true, Groups: []string{"dev", "staff"}}

// newIssuer returns an Issuer for the test's issuer. change modifies the default configuration, and may be nil.
func newIssuer(t testing.TB, testIssuer *oidctest.Issuer, change func(*Config)) *Issuer {
	t.Helper()
	c := Config{Issuer: testIssuer.URL, ClientID: oidctest.ClientID, CLIClientID: oidctest.CLIClientID, Roles: map[string]string{"dev": "user"}}
	if change != nil {
		change(&c)
	}
	i, err := New(c, func(_ context.Context, s fleet.Subject) (string, error) { return s.ID + " " + s.Name, nil }, slog.New(slog.DiscardHandler), time.Now)
	require.NoError(t, err)
	return i
}

// TestAuthenticate checks the principals of the ID token and the access token of a real sign-in.
func TestAuthenticate(t *testing.T) {
	t.Parallel()
	testIssuer := oidctest.New(t, alice)
	tokens := testIssuer.Tokens(t, "alice")
	id, _ := tokens.Extra("id_token").(string)
	for token, name := range map[string]string{id: "alice", tokens.AccessToken: "248289761001"} {
		i := newIssuer(t, testIssuer, nil)
		require.True(t, i.Recognizes(token))
		p, err := i.Authenticate(t.Context(), token)
		require.NoError(t, err)
		require.WithinDuration(t, time.Now().Add(time.Hour), p.ExpiresAt, time.Minute)
		p.ExpiresAt = time.Time{}
		require.Equal(t, fleet.Principal{Name: testIssuer.URL + " 248289761001 " + name, Scope: fleet.ScopeRun, Groups: []string{"oidc:dev", "oidc:staff"}}, p)
	}
}

// TestForged checks that the server accepts a token only if the issuer has issued it for this server.
func TestForged(t *testing.T) {
	t.Parallel()
	testIssuer := oidctest.New(t, alice)
	i := newIssuer(t, testIssuer, func(c *Config) { c.Audience = []string{"https://fleet.example.com/mcp"} })
	withClaim := func(name string, value any) string {
		return testIssuer.SignedToken(t, func(c map[string]any) { c[name] = value })
	}
	withoutClaim := func(name string) string {
		return testIssuer.SignedToken(t, func(c map[string]any) { delete(c, name) })
	}
	for name, token := range map[string]string{
		"unchanged": testIssuer.SignedToken(t, nil), "another accepted audience": withClaim("aud", []string{"x", "https://fleet.example.com/mcp"}),
		"slightly ahead": withClaim("nbf", time.Now().Add(30*time.Second).Unix()),
	} {
		_, err := i.Authenticate(t.Context(), token)
		require.NoError(t, err, name)
	}

	private, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	public, err := x509.MarshalPKIXPublicKey(testIssuer.PublicKey())
	require.NoError(t, err)
	sign := func(algorithm jose.SignatureAlgorithm, key any) string {
		return oidctest.Sign(t, jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{Key: key, KeyID: testIssuer.KeyID()}}, testIssuer.Claims())
	}
	body, err := json.Marshal(testIssuer.Claims())
	require.NoError(t, err)
	unsigned := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + base64.RawURLEncoding.EncodeToString(body) + "."
	good := testIssuer.SignedToken(t, nil)
	head, rest, _ := strings.Cut(good, ".")
	payload, signature, _ := strings.Cut(rest, ".")
	embeddingSigner, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: private}, &jose.SignerOptions{EmbedJWK: true})
	require.NoError(t, err)
	selfSigned, err := embeddingSigner.Sign(body)
	require.NoError(t, err)
	tokenWithKey, err := selfSigned.CompactSerialize()
	require.NoError(t, err)
	for name, token := range map[string]string{
		"another issuer's": withClaim("iss", "https://evil.example.com"), "issuer with a slash": withClaim("iss", testIssuer.URL+"/"), "no issuer": withoutClaim("iss"),
		"another audience": withClaim("aud", "other"), "no audience": withoutClaim("aud"), "empty audience": withClaim("aud", ""),
		"expired": withClaim("exp", time.Now().Add(-time.Second).Unix()), "no expiry": withoutClaim("exp"), "expiry as text": withClaim("exp", "never"),
		"not yet valid": withClaim("nbf", time.Now().Add(5*time.Minute).Unix()), "made in the future": withClaim("iat", time.Now().Add(5*time.Minute).Unix()),
		"no subject": withoutClaim("sub"), "subject is a number": withClaim("sub", 1), "very long subject": withClaim("sub", strings.Repeat("x", 300)),
		"not signed": unsigned, "another key": sign(jose.RS256, private),
		"public key as a secret":       sign(jose.HS256, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})),
		"public key's bytes as secret": sign(jose.HS256, public),
		"key in the token":             tokenWithKey,
		"no signature":                 head + "." + payload + ".",
		"other payload":                head + "." + base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(body), "248289761001", "1", 1))) + "." + signature,
		"not a token":                  "eyJ.eyJ.x",
		"nothing":                      "",
		"a JSON serialization":         selfSigned.FullSerialize(),
	} {
		_, err := i.Authenticate(t.Context(), token)
		require.Equal(t, fleet.ReasonUnauthenticated, fleet.ReasonOf(err), "%s: %v", name, err)
		require.NotContains(t, err.Error(), signature, name)
	}
}

// TestRoles checks which scope a principal gets from its groups and the default role.
func TestRoles(t *testing.T) {
	t.Parallel()
	testIssuer := oidctest.New(t, alice)
	roles := map[string]string{"auditors": "viewer", "dev": "user", "fleet-admins": "admin"}
	for name, c := range map[string]struct {
		groups any
		role   string // the default role
		want   fleet.Scope
		denied bool
	}{
		"the greatest":              {groups: []string{"auditors", "fleet-admins", "dev"}, want: fleet.ScopeAdmin},
		"one":                       {groups: []string{"auditors", "others"}, want: fleet.ScopeRead},
		"one string":                {groups: "dev", want: fleet.ScopeRun},
		"none":                      {groups: []string{}, denied: true},
		"unlisted":                  {groups: []string{"others", "Dev", "dev ", ""}, denied: true},
		"not a list":                {groups: map[string]any{"dev": true}, denied: true},
		"list of others":            {groups: []any{1, "dev"}, denied: true},
		"no group, a default":       {groups: nil, role: "viewer", want: fleet.ScopeRead},
		"a group, a lower default":  {groups: []string{"dev"}, role: "viewer", want: fleet.ScopeRun},
		"a group, a higher default": {groups: []string{"auditors"}, role: "user", want: fleet.ScopeRun},
	} {
		i := newIssuer(t, testIssuer, func(config *Config) { config.Roles, config.DefaultRole = roles, c.role })
		p, err := i.Authenticate(t.Context(), testIssuer.SignedToken(t, func(claims map[string]any) { claims["groups"] = c.groups }))
		if c.denied {
			require.Equal(t, fleet.ReasonPermissionDenied, fleet.ReasonOf(err), "%s: %v", name, err)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, c.want, p.Scope, name)
	}
}

// TestNames checks which claim gives a principal its name.
func TestNames(t *testing.T) {
	t.Parallel()
	testIssuer := oidctest.New(t, alice)
	for _, c := range []struct {
		claim  string // the configured claim
		change func(map[string]any)
		want   string // the name; empty means that the token is refused
	}{
		{"", nil, "alice"},
		{"", func(c map[string]any) { delete(c, "preferred_username") }, "alice@example.com"},
		{"", func(c map[string]any) { delete(c, "preferred_username"); c["email_verified"] = false }, "248289761001"},
		{"", func(c map[string]any) { c["preferred_username"] = 7; delete(c, "email") }, "248289761001"},
		{"sub", nil, "248289761001"},
		{"email", nil, "alice@example.com"},
		{"email", func(c map[string]any) { c["email_verified"] = false }, ""},
		{"email", func(c map[string]any) { delete(c, "email_verified") }, ""},
		{"email", func(c map[string]any) { c["email_verified"] = "true" }, ""},
		{"email", func(c map[string]any) { delete(c, "email") }, ""},
		{"upn", nil, ""},
	} {
		i := newIssuer(t, testIssuer, func(config *Config) { config.UsernameClaim = c.claim })
		p, err := i.Authenticate(t.Context(), testIssuer.SignedToken(t, c.change))
		if c.want == "" {
			require.Equal(t, fleet.ReasonUnauthenticated, fleet.ReasonOf(err), c.claim)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, testIssuer.URL+" 248289761001 "+c.want, p.Name)
	}
}

// TestKeyRotation checks that the server accepts a new key at once, and then no longer accepts the old key. It also
// checks that tokens with unknown keys cannot make the server ask the issuer without limit.
func TestKeyRotation(t *testing.T) {
	t.Parallel()
	testIssuer := oidctest.New(t, alice)
	i := newIssuer(t, testIssuer, nil)
	old := testIssuer.IDToken(t, "alice")
	_, err := i.Authenticate(t.Context(), old)
	require.NoError(t, err)
	testIssuer.RotateKey()
	_, err = i.Authenticate(t.Context(), old)
	require.NoError(t, err, "the old key must be accepted until the server fetches the keys again")
	_, err = i.Authenticate(t.Context(), testIssuer.IDToken(t, "alice"))
	require.NoError(t, err)
	_, err = i.Authenticate(t.Context(), old)
	require.Equal(t, fleet.ReasonUnauthenticated, fleet.ReasonOf(err), "a token with a withdrawn key must be refused")

	private, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	for range 50 {
		token := oidctest.Sign(t, jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: private, KeyID: rand.Text()}}, testIssuer.Claims())
		_, err = i.Authenticate(t.Context(), token)
		require.Equal(t, fleet.ReasonUnauthenticated, fleet.ReasonOf(err))
	}
	require.LessOrEqual(t, testIssuer.RequestCount("/keys"), 2+fetchBurst)
}

// TestUnreachable checks a server that starts before its issuer, and a server whose issuer becomes unreachable.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	testIssuer := oidctest.New(t, alice)
	token := testIssuer.IDToken(t, "alice")
	expired := testIssuer.SignedToken(t, func(c map[string]any) { c["exp"] = time.Now().Add(-time.Minute).Unix() })
	testIssuer.Stop()
	i := newIssuer(t, testIssuer, nil)
	_, err := i.Authenticate(t.Context(), token)
	require.Equal(t, fleet.ReasonBackendUnavailable, fleet.ReasonOf(err))
	require.ErrorContains(t, err, "the issuer "+testIssuer.URL+" cannot be reached")
	require.Len(t, i.Degraded(), 1)
	require.Equal(t, "oidc", i.Degraded()[0].Part)
	_, err = i.Authenticate(t.Context(), expired)
	require.Equal(t, fleet.ReasonUnauthenticated, fleet.ReasonOf(err), "an expired token must be refused without the issuer")

	testIssuer.Start(t)
	i.Start()
	t.Cleanup(i.Stop)
	_, err = i.fetch(t.Context())
	require.NoError(t, err)
	require.Empty(t, i.Degraded())
	_, err = i.Authenticate(t.Context(), token)
	require.NoError(t, err)

	testIssuer.Stop()
	_, err = i.Authenticate(t.Context(), token)
	require.NoError(t, err, "a token with a known key must be accepted without the issuer")
	testIssuer.RotateKey()
	_, err = i.Authenticate(t.Context(), testIssuer.SignedToken(t, nil))
	require.Equal(t, fleet.ReasonBackendUnavailable, fleet.ReasonOf(err), "a token with an unknown key cannot be checked without the issuer")
	require.Len(t, i.Degraded(), 1)
}
