// Package login signs a person in to a Fleet server. It uses the OpenID Connect issuer that the server names. It keeps
// the tokens for later commands in the user's keyring, or in a file that only the user can read.
//
// It reads the server's metadata (RFC 9728) and talks to the issuer. Package cli uses it, so it must never import the
// core.
package login

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"fleet/internal/loopback"
)

// requestTimeout limits each request to the server or the issuer, and how long the browser may take to send the header of a request.
const requestTimeout = 30 * time.Second

// ErrNoIssuer means that the server names no issuer, or no OAuth client for this program.
var ErrNoIssuer = errors.New("the server has no issuer to sign in with")

// ErrSessionEnded means that the person has to sign in: there was no sign-in, or the session has ended.
var ErrSessionEnded = errors.New("the session has ended")

// Issuer is the issuer of a server, ready to sign people in.
type Issuer struct {
	URL string
	// HasDeviceFlow reports whether people can sign in on another device, with SignInOnDevice.
	HasDeviceFlow bool

	config        oauth2.Config
	verifier      *oidc.IDTokenVerifier
	revocationURL string // the revocation endpoint; empty if the issuer has none
}

// FindIssuer returns the issuer that the server names. It returns ErrNoIssuer if nobody can sign in with an issuer. base is the server's HTTP
// address; client makes the requests to it.
func FindIssuer(ctx context.Context, client *http.Client, base string) (*Issuer, error) {
	var server struct {
		Resource    string   `json:"resource"`
		Issuers     []string `json:"authorization_servers"`
		Scopes      []string `json:"scopes_supported"`
		CLIClientID string   `json:"fleet_cli_client_id"`
	}
	base = strings.TrimSuffix(base, "/")
	found, err := getJSON(ctx, client, base+"/.well-known/oauth-protected-resource", &server)
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot ask %s where to sign in: %w", base, err)
	case !found || len(server.Issuers) == 0 || server.CLIClientID == "":
		return nil, ErrNoIssuer
	case server.Resource != base: // RFC 9728, section 3.3: another server's metadata could lead to another issuer
		return nil, fmt.Errorf("%s reports its address as %q: set public_url in the server's configuration to the address that clients use", base, server.Resource)
	}
	return discover(ctx, server.Issuers[0], server.CLIClientID, server.Scopes)
}

// discover asks the issuer for its endpoints. It refuses an issuer without https, except on this machine. It adds the scope offline_access
// if the issuer supports it, to get refresh tokens.
func discover(ctx context.Context, issuer, clientID string, scopes []string) (*Issuer, error) {
	if u, err := url.Parse(issuer); err != nil || u.Scheme != "https" && !loopback.Is(u.Hostname()) {
		return nil, fmt.Errorf("the issuer %q does not use https, so others could read your tokens", issuer)
	}
	fetchCtx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	provider, err := oidc.NewProvider(fetchCtx, issuer)
	if err != nil {
		return nil, fmt.Errorf("the issuer %s does not answer: %w", issuer, err)
	}
	var metadata struct {
		Scopes []string `json:"scopes_supported"`
		Revoke string   `json:"revocation_endpoint"`
	}
	if err := provider.Claims(&metadata); err != nil {
		return nil, err
	}
	if slices.Contains(metadata.Scopes, oidc.ScopeOfflineAccess) && !slices.Contains(scopes, oidc.ScopeOfflineAccess) {
		scopes = append(slices.Clone(scopes), oidc.ScopeOfflineAccess)
	}
	endpoint := provider.Endpoint()
	endpoint.AuthStyle = oauth2.AuthStyleInParams // the client has no secret; x/oauth2 would try basic auth first
	return &Issuer{
		URL: issuer, HasDeviceFlow: endpoint.DeviceAuthURL != "",
		config: oauth2.Config{ClientID: clientID, Endpoint: endpoint, Scopes: scopes},
		// The verifier fetches keys later, so it must not use fetchCtx, which ends with this function.
		verifier: provider.VerifierContext(ctx, &oidc.Config{ClientID: clientID}), revocationURL: metadata.Revoke,
	}, nil
}

// tokensOf verifies the ID token in the issuer's response and returns the tokens. If nonce is not empty, the ID token must contain it.
func (i *Issuer) tokensOf(ctx context.Context, t *oauth2.Token, nonce string) (Tokens, error) {
	raw, _ := t.Extra("id_token").(string)
	if raw == "" {
		return Tokens{}, errors.New("the issuer returned no ID token: the scopes of the server must include openid")
	}
	id, err := i.verifier.Verify(ctx, raw)
	if err != nil {
		return Tokens{}, err
	}
	if nonce != "" && id.Nonce != nonce {
		return Tokens{}, errors.New("the ID token belongs to another sign-in: try again")
	}
	var claims struct {
		Name  string `json:"preferred_username"`
		Email string `json:"email"`
	}
	if err := id.Claims(&claims); err != nil {
		return Tokens{}, err
	}
	who := cmp.Or(claims.Name, claims.Email, id.Subject)
	return Tokens{ID: raw, Refresh: t.RefreshToken, Expiry: id.Expiry, PersonName: who}, nil
}

// refresh gets new tokens with the old refresh token. It returns ErrSessionEnded if the issuer has ended the session or does not renew ID tokens.
// The issuer may accept the old refresh token only once. So the end of ctx does not interrupt the request, and refresh calls save
// with the new refresh token before anything else can fail.
func (i *Issuer) refresh(ctx context.Context, old Tokens, save func(Tokens) error) (Tokens, error) {
	requestCtx, cancelRequest := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancelRequest()
	t, err := i.config.TokenSource(requestCtx, &oauth2.Token{RefreshToken: old.Refresh}).Token()
	if resp, ok := errors.AsType[*oauth2.RetrieveError](err); ok && resp.ErrorCode == "invalid_grant" {
		return Tokens{}, ErrSessionEnded
	}
	if err != nil {
		return Tokens{}, stripBody(err)
	}
	if old.Refresh != t.RefreshToken { // it is the old one if the response has none
		old.Refresh = t.RefreshToken
		if err := save(old); err != nil {
			return Tokens{}, err
		}
	}
	if raw, _ := t.Extra("id_token").(string); raw == "" {
		return Tokens{}, ErrSessionEnded // some issuers return an ID token only at the sign-in
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return i.tokensOf(ctx, t, "")
}

// Revoke asks the issuer to end the session (RFC 7009). It does nothing if the issuer has no revocation endpoint, or if there is no refresh
// token.
func (i *Issuer) Revoke(ctx context.Context, t Tokens) error {
	if i.revocationURL == "" || t.Refresh == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	form := url.Values{"token": {t.Refresh}, "token_type_hint": {"refresh_token"}, "client_id": {i.config.ClientID}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, i.revocationURL, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the issuer answered %s", resp.Status)
	}
	return nil
}

// stripBody removes the body of the issuer's response from an error of package oauth2, because the body may contain secrets. It returns
// other errors unchanged.
func stripBody(err error) error {
	resp, ok := errors.AsType[*oauth2.RetrieveError](err)
	switch {
	case !ok:
		return err
	case resp.ErrorCode == "":
		return fmt.Errorf("the issuer answered %s", resp.Response.Status)
	}
	return fmt.Errorf("the issuer refused: %s %s", resp.ErrorCode, resp.ErrorDescription)
}

// getJSON decodes the JSON at the address into dest. found is false if the server answers with 404.
func getJSON(ctx context.Context, client *http.Client, address string, dest any) (found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return false, err
	}
	resp, err := client.Do(r)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
		return true, json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(dest)
	case http.StatusNotFound:
		return false, nil
	}
	return false, fmt.Errorf("the server answered %s", resp.Status)
}
