package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4/jwt"

	"fleet/internal/fleet"
)

// leeway is how far the issuer's clock may be ahead of this machine's. It does not make tokens valid for longer: clients get
// a new one before the old one expires.
const leeway = time.Minute

// source is the name of this source, which the names of its principals and groups contain.
const source = "oidc"

// maxSubject is the maximum length of a subject in OpenID Connect.
const maxSubject = 255

// Credentials implements identity.Source.
func (i *Issuer) Credentials() string { return "tokens of " + i.config.Issuer }

// Recognizes reports whether the secret is a signed JWT: three parts in base64, with dots, and the first begins a JSON
// object.
func (*Issuer) Recognizes(secret string) bool {
	return strings.Count(secret, ".") == 2 && strings.HasPrefix(secret, "eyJ")
}

// Authenticate returns the principal of a token, whose kind the face decides. UNAUTHENTICATED if the token is not valid, or not for this server;
// PERMISSION_DENIED if the principal has no role; BACKEND_UNAVAILABLE if the issuer's keys are not known.
func (i *Issuer) Authenticate(ctx context.Context, token string) (fleet.Principal, error) {
	// An expired token needs no key. Its streams must end even if the issuer cannot be reached.
	if c, err := unverified(token); err == nil && c.Expiry != nil && !i.now().Before(c.Expiry.Time()) {
		return fleet.Principal{}, refused("the token has expired")
	}
	c, err := i.verify(ctx, token)
	if err != nil {
		return fleet.Principal{}, err
	}
	return i.principal(ctx, c)
}

// claims are those of a verified token.
type claims struct {
	jwt.Claims
	Nonce string `json:"nonce"`
	all   map[string]json.RawMessage
}

func unverified(token string) (jwt.Claims, error) {
	var c jwt.Claims
	t, err := jwt.ParseSigned(token, algorithms)
	if err != nil {
		return c, err
	}
	return c, t.UnsafeClaimsWithoutVerification(&c)
}

// verify returns the claims of a valid token for this server.
func (i *Issuer) verify(ctx context.Context, token string) (*claims, error) {
	p, err := i.get(ctx)
	if err != nil {
		return nil, err
	}
	checked := &signature{keys: p.keys}
	t, err := oidc.NewVerifier(i.config.Issuer, checked, &oidc.Config{
		SupportedSigningAlgs: names, SkipClientIDCheck: true, SkipExpiryCheck: true, // checked below
	}).Verify(ctx, token)
	switch {
	case checked.err != nil && !errors.Is(checked.err, errForged):
		i.note(checked.err)
		return nil, i.unavailable(checked.err)
	case err != nil:
		return nil, refused("the token was not issued by %s", i.config.Issuer)
	}
	c := &claims{}
	if err := t.Claims(&c); err != nil {
		return nil, refused("the token's claims cannot be read")
	}
	if err := t.Claims(&c.all); err != nil {
		return nil, refused("the token's claims cannot be read")
	}
	now := i.now()
	switch {
	case !i.config.accepts(c.Audience):
		return nil, refused("the token is for another audience: sign in with the client of this server")
	case c.Expiry == nil:
		return nil, refused("the token does not say when it expires")
	case !now.Before(c.Expiry.Time()):
		return nil, refused("the token has expired")
	case c.NotBefore != nil && c.NotBefore.Time().After(now.Add(leeway)), c.IssuedAt != nil && c.IssuedAt.Time().After(now.Add(leeway)):
		return nil, refused("the token is not valid yet: compare the clocks of the server and the issuer")
	case c.Subject == "" || len(c.Subject) > maxSubject:
		return nil, refused("the token has no subject, or a very long one")
	}
	return c, nil
}

// principal returns the principal of the claims, according to the configuration.
func (i *Issuer) principal(ctx context.Context, c *claims) (fleet.Principal, error) {
	called, err := i.called(c)
	if err != nil {
		return fleet.Principal{}, err
	}
	groups := listOf(c.all[i.config.GroupsClaim])
	scope, ok := i.config.Roles.Scope(groups, i.config.DefaultRole)
	if !ok { // checked before the principal gets a name, which is permanent
		return fleet.Principal{}, fleet.Errorf(fleet.ReasonPermissionDenied, "%q is in no group that may use this server", fleet.Shorten(called, 80)).
			Next("ask for a group that oidc.roles lists in the server's configuration")
	}
	for n, g := range groups {
		groups[n] = source + ":" + g // other sources have groups too
	}
	name, err := i.nameOf(ctx, fleet.Subject{Source: source, ID: c.Issuer + " " + c.Subject, Name: called, Groups: groups})
	return fleet.Principal{Name: name, Scope: scope, Groups: groups, ExpiresAt: c.Expiry.Time()}, err
}

// called returns the name of the subject. If the configuration names a claim, a token without it is refused, because the
// name from the first token is permanent.
func (i *Issuer) called(c *claims) (string, error) {
	wanted := []string{"preferred_username", "email", "sub"}
	if i.config.UsernameClaim != "" {
		wanted = []string{i.config.UsernameClaim}
	}
	for _, claim := range wanted {
		var name string
		if json.Unmarshal(c.all[claim], &name) == nil && name != "" && (claim != "email" || c.isTrue("email_verified")) {
			return name, nil
		}
	}
	return "", refused("the token has no claim %q, or the issuer has not verified it: ask for the scope that has it (oidc.scopes), or set oidc.username_claim",
		i.config.UsernameClaim)
}

func (c *claims) isTrue(claim string) bool {
	var yes bool
	return json.Unmarshal(c.all[claim], &yes) == nil && yes
}

// listOf returns the strings of a claim, which is a list or a single string.
func listOf(raw json.RawMessage) []string {
	var list []string
	if json.Unmarshal(raw, &list) == nil {
		return slices.DeleteFunc(list, func(s string) bool { return s == "" })
	}
	var one string
	if json.Unmarshal(raw, &one) == nil && one != "" {
		return []string{one}
	}
	return nil
}

func refused(format string, args ...any) error {
	return fleet.Errorf(fleet.ReasonUnauthenticated, format, args...)
}
