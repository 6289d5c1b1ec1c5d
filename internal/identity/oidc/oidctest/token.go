package oidctest

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2"
)

// Login signs the user in at the authorization URL as a browser does. It returns the URL of the last redirect.
// This URL contains the code, or the error if the issuer refused the request. The issuer may be in another process.
func Login(ctx context.Context, user, authorizationURL string) (*url.URL, error) {
	u, err := url.Parse(authorizationURL)
	if err != nil {
		return nil, err
	}
	browser := &http.Client{CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if r.URL.Host != u.Host {
			return http.ErrUseLastResponse
		}
		return nil
	}}
	page, err := send(ctx, browser, http.MethodGet, authorizationURL, nil)
	if err != nil {
		return nil, err
	}
	defer page.Body.Close()
	text, err := io.ReadAll(page.Body)
	if err != nil {
		return nil, err
	}
	id := regexp.MustCompile(`name="id" value="([^"]*)"`).FindSubmatch(text)
	if id == nil {
		return page.Location() // the issuer refused the request
	}
	r, err := send(ctx, browser, http.MethodPost, page.Request.URL.String(), url.Values{"id": {string(id[1])}, "username": {user}})
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	return r.Location()
}

func send(ctx context.Context, c *http.Client, method, address string, form url.Values) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return c.Do(r)
}

// Tokens signs the user in with the client of the command line and returns the tokens. Extra("id_token") is the ID
// token.
func (i *Issuer) Tokens(t testing.TB, user string) *oauth2.Token {
	t.Helper()
	ctx := context.Background()
	provider, err := oidc.NewProvider(ctx, i.URL)
	require.NoError(t, err)
	c := oauth2.Config{
		ClientID: CLIClientID, Endpoint: provider.Endpoint(), RedirectURL: "http://127.0.0.1:1/callback",
		Scopes: []string{"openid", "profile", "email", "groups", "offline_access"},
	}
	verifier := oauth2.GenerateVerifier()
	redirect, err := Login(ctx, user, c.AuthCodeURL("state", oauth2.S256ChallengeOption(verifier)))
	require.NoError(t, err)
	require.NotEmpty(t, redirect.Query().Get("code"), "%s", redirect)
	tokens, err := c.Exchange(ctx, redirect.Query().Get("code"), oauth2.VerifierOption(verifier))
	require.NoError(t, err)
	return tokens
}

// IDToken signs the user in and returns the ID token.
func (i *Issuer) IDToken(t testing.TB, user string) string {
	t.Helper()
	token, _ := i.Tokens(t, user).Extra("id_token").(string)
	require.NotEmpty(t, token)
	return token
}

// SignedToken returns a token signed with the issuer's key. change modifies the valid claims, and may be nil.
func (i *Issuer) SignedToken(t testing.TB, change func(claims map[string]any)) string {
	t.Helper()
	i.store.mu.Lock()
	defer i.store.mu.Unlock()
	return Sign(t, jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: i.store.key.private, KeyID: i.store.key.id}}, i.claims(change))
}

// KeyID returns the id of the current key.
func (i *Issuer) KeyID() string {
	i.store.mu.Lock()
	defer i.store.mu.Unlock()
	return i.store.key.id
}

// PublicKey returns the public part of the current key. An attacker can know it too.
func (i *Issuer) PublicKey() any {
	i.store.mu.Lock()
	defer i.store.mu.Unlock()
	return &i.store.key.private.PublicKey
}

// claims returns valid claims of the first user. change modifies them, and may be nil.
func (i *Issuer) claims(change func(claims map[string]any)) map[string]any {
	u, now := i.users[0], time.Now()
	claims := map[string]any{
		"iss": i.URL, "sub": u.Subject, "aud": ClientID, "exp": now.Add(time.Hour).Unix(), "iat": now.Unix(),
		"preferred_username": u.Name, "email": u.Email, "email_verified": u.EmailVerified, "groups": u.Groups,
	}
	if change != nil {
		change(claims)
	}
	return claims
}

// Claims returns valid claims of the first user.
func (i *Issuer) Claims() map[string]any { return i.claims(nil) }

// Sign signs the claims with the key.
func Sign(t testing.TB, key jose.SigningKey, claims map[string]any) string {
	t.Helper()
	s, err := jose.NewSigner(key, (&jose.SignerOptions{}).WithType("JWT"))
	require.NoError(t, err)
	token, err := jwt.Signed(s).Claims(claims).Serialize()
	require.NoError(t, err)
	return token
}
