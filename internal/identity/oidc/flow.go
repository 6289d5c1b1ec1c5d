package oidc

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"fleet/internal/fleet"
	"fleet/internal/loopback"
)

// AuthURL returns the address at which a person signs in. Afterwards the issuer redirects the browser to the address redirect,
// with a code and the state. The nonce and the verifier are random secrets, which the caller must pass to Exchange too.
func (i *Issuer) AuthURL(ctx context.Context, redirect, state, nonce, verifier string) (string, error) {
	m, err := i.loadMetadata(ctx)
	if err != nil {
		return "", err
	}
	return i.oauthConfig(m, redirect).AuthCodeURL(state, oidc.Nonce(nonce), oauth2.S256ChallengeOption(verifier)), nil
}

// Exchange exchanges the code of a sign-in for tokens. It returns an ID token, which Authenticate accepts, and the
// refresh token, or "" if the issuer returned none. It fails as Authenticate does, and also with UNAUTHENTICATED if the
// issuer refuses the code, and BACKEND_UNAVAILABLE if the issuer cannot be reached or refuses the client.
func (i *Issuer) Exchange(ctx context.Context, redirect, code, nonce, verifier string) (token, refresh string, err error) {
	m, err := i.loadMetadata(ctx)
	if err != nil {
		return "", "", err
	}
	tokens, err := i.oauthConfig(m, redirect).Exchange(oidc.ClientContext(ctx, i.client), code, oauth2.VerifierOption(verifier))
	if err != nil {
		return "", "", i.exchangeError(ctx, err)
	}
	token, _ = tokens.Extra("id_token").(string)
	c, err := i.verify(ctx, token)
	if err != nil {
		return "", "", err
	}
	if c.Nonce != nonce {
		return "", "", unauthenticated("the token belongs to another sign-in: sign in again")
	}
	if _, err := i.principal(ctx, c); err != nil {
		return "", "", err
	}
	return token, tokens.RefreshToken, nil
}

// Refresh exchanges a refresh token for new tokens. It returns them as Exchange does, but the old refresh token if the issuer returned
// no new one. It returns the errors of Exchange; UNAUTHENTICATED also means that the issuer has ended the session. If the new token
// cannot be checked now, Refresh returns the tokens without an error, because the issuer may not accept the old refresh token again.
func (i *Issuer) Refresh(ctx context.Context, old string) (token, refresh string, err error) {
	m, err := i.loadMetadata(ctx)
	if err != nil {
		return "", "", err
	}
	tokens, err := i.oauthConfig(m, "").TokenSource(oidc.ClientContext(ctx, i.client), &oauth2.Token{RefreshToken: old}).Token()
	if err != nil {
		return "", "", i.exchangeError(ctx, err)
	}
	token, _ = tokens.Extra("id_token").(string)
	_, err = i.Authenticate(ctx, token)
	if reason := fleet.ReasonOf(err); reason == fleet.ReasonUnauthenticated || reason == fleet.ReasonPermissionDenied {
		return "", "", err
	}
	return token, tokens.RefreshToken, nil
}

// EndSessionURL returns the address at which a browser ends its session with the issuer. The token is the ID token of that
// session. EndSessionURL returns "" if the issuer has no such address, if the token would cross the network unencrypted, or if the token
// is not a JWT.
func (i *Issuer) EndSessionURL(ctx context.Context, token string) (string, error) {
	if !i.Recognizes(token) {
		return "", nil
	}
	m, err := i.loadMetadata(ctx)
	if err != nil || m.endSessionURL == "" {
		return "", err
	}
	u, err := url.Parse(m.endSessionURL)
	if err != nil || u.Scheme != "https" && (u.Scheme != "http" || !loopback.Is(u.Hostname())) {
		return "", nil //nolint:nilerr // without https, the token would cross the network unencrypted
	}
	q := u.Query()
	q.Set("id_token_hint", token)
	q.Set("client_id", i.config.ClientID)
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// oauthConfig returns the OAuth configuration of the page's client.
func (i *Issuer) oauthConfig(m *metadata, redirect string) *oauth2.Config {
	scopes := i.config.Scopes
	if m.offlineAccess && !slices.Contains(scopes, oidc.ScopeOfflineAccess) {
		scopes = append(slices.Clone(scopes), oidc.ScopeOfflineAccess)
	}
	endpoint := m.provider.Endpoint()
	if i.config.ClientSecret == "" {
		endpoint.AuthStyle = oauth2.AuthStyleInParams // otherwise x/oauth2 would first send the client id in a header
	}
	return &oauth2.Config{ClientID: i.config.ClientID, ClientSecret: i.config.ClientSecret, Endpoint: endpoint, RedirectURL: redirect, Scopes: scopes}
}

// exchangeError translates an error of the issuer's token endpoint. It omits the issuer's text, which may contain
// secrets.
func (i *Issuer) exchangeError(ctx context.Context, err error) error {
	refusal, ok := errors.AsType[*oauth2.RetrieveError](err)
	switch {
	case !ok, refusal.Response.StatusCode >= 500, refusal.Response.StatusCode == http.StatusTooManyRequests:
		return i.unavailable(err)
	case refusal.ErrorCode == "invalid_grant":
		return unauthenticated("the issuer has ended the session, or the sign-in took too long: sign in again")
	}
	i.log.ErrorContext(ctx, "oidc issuer refused the client of the page", slog.String("issuer", i.config.Issuer), slog.String("code", refusal.ErrorCode))
	return fleet.Errorf(fleet.ReasonBackendUnavailable, "the issuer %s refused this server's client: set oidc.client_id and its secret to a client that is registered with the issuer", i.config.Issuer)
}
