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

// leeway is how far the issuer's clock may be ahead of this machine's clock. It is not added to the time at which a token
// expires: clients get a new token before that time, so they need no leeway.
const leeway = time.Minute

// sourceName is the name of this identity source. The names of its principals and groups contain it.
const sourceName = "oidc"

// maxSubject is the maximum length of a subject in OpenID Connect.
const maxSubject = 255

// Credentials implements identity.Source.
func (i *Issuer) Credentials() string { return "tokens of " + i.config.Issuer }

// Recognizes reports whether the secret looks like a signed JWT: it has three parts separated by dots, and begins like a JSON
// object in base64.
func (*Issuer) Recognizes(secret string) bool {
	return strings.Count(secret, ".") == 2 && strings.HasPrefix(secret, "eyJ")
}

// Authenticate returns the principal of a token. It does not set the principal's kind: package admission does that. It returns
// UNAUTHENTICATED if the token is not valid or not for this server, PERMISSION_DENIED if the principal has no role, and
// BACKEND_UNAVAILABLE if the issuer's keys are needed and cannot be fetched.
func (i *Issuer) Authenticate(ctx context.Context, token string) (fleet.Principal, error) {
	// Refuse an expired token before the keys are needed, so that its streams end even if the issuer cannot be reached.
	if c, err := unverifiedClaims(token); err == nil && c.Expiry != nil && !i.now().Before(c.Expiry.Time()) {
		return fleet.Principal{}, unauthenticated("the token has expired")
	}
	c, err := i.verify(ctx, token)
	if err != nil {
		return fleet.Principal{}, err
	}
	return i.principal(ctx, c)
}

// claims are the claims of a verified token.
type claims struct {
	jwt.Claims
	Nonce string `json:"nonce"`
	all   map[string]json.RawMessage
}

// unverifiedClaims returns the claims of a token without checking its signature.
func unverifiedClaims(token string) (jwt.Claims, error) {
	var c jwt.Claims
	t, err := jwt.ParseSigned(token, algorithms)
	if err != nil {
		return c, err
	}
	return c, t.UnsafeClaimsWithoutVerification(&c)
}

// verify checks that the token is valid and for this server, and returns its claims.
func (i *Issuer) verify(ctx context.Context, token string) (*claims, error) {
	m, err := i.loadMetadata(ctx)
	if err != nil {
		return nil, err
	}
	keySet := &recordingKeySet{keys: m.keys}
	t, err := oidc.NewVerifier(i.config.Issuer, keySet, &oidc.Config{
		SupportedSigningAlgs: algorithmNames, SkipClientIDCheck: true, SkipExpiryCheck: true, // checked below
	}).Verify(ctx, token)
	switch {
	case keySet.err != nil && !errors.Is(keySet.err, errForged):
		i.recordResult(keySet.err)
		return nil, i.unavailable(keySet.err)
	case err != nil:
		return nil, unauthenticated("the token was not issued by %s", i.config.Issuer)
	}
	c := &claims{}
	if err := t.Claims(&c); err != nil {
		return nil, unauthenticated("the token's claims cannot be read")
	}
	if err := t.Claims(&c.all); err != nil {
		return nil, unauthenticated("the token's claims cannot be read")
	}
	now := i.now()
	switch {
	case !i.config.accepts(c.Audience):
		return nil, unauthenticated("the token is for another audience: sign in with the client of this server")
	case c.Expiry == nil:
		return nil, unauthenticated("the token does not say when it expires")
	case !now.Before(c.Expiry.Time()):
		return nil, unauthenticated("the token has expired")
	case c.NotBefore != nil && c.NotBefore.Time().After(now.Add(leeway)), c.IssuedAt != nil && c.IssuedAt.Time().After(now.Add(leeway)):
		return nil, unauthenticated("the token is not valid yet: compare the clocks of the server and the issuer")
	case c.Subject == "" || len(c.Subject) > maxSubject:
		return nil, unauthenticated("the token has no subject, or a subject of more than %d bytes", maxSubject)
	}
	return c, nil
}

// principal returns the principal of the claims, with the name, scope and groups that follow from the configuration.
func (i *Issuer) principal(ctx context.Context, c *claims) (fleet.Principal, error) {
	displayName, err := i.displayName(c)
	if err != nil {
		return fleet.Principal{}, err
	}
	groups := listOf(c.all[i.config.GroupsClaim])
	scope, ok := i.config.Roles.Scope(groups, i.config.DefaultRole)
	if !ok { // checked before the principal gets a name, which is permanent
		return fleet.Principal{}, fleet.Errorf(fleet.ReasonPermissionDenied, "%q is in no group that may use this server", fleet.Shorten(displayName, 80)).
			Next("ask to be added to a group that oidc.roles lists in the server's configuration")
	}
	for n, g := range groups {
		groups[n] = sourceName + ":" + g // the prefix keeps groups of different sources apart
	}
	name, err := i.recordSubject(ctx, fleet.Subject{Source: sourceName, ID: c.Issuer + " " + c.Subject, Name: displayName, Groups: groups})
	return fleet.Principal{Name: name, Scope: scope, Groups: groups, ExpiresAt: c.Expiry.Time()}, err
}

// displayName returns the name of the subject. If the configuration names a claim, displayName refuses a token without this claim
// instead of trying another claim, because the name from the first token is permanent.
func (i *Issuer) displayName(c *claims) (string, error) {
	claimNames := []string{"preferred_username", "email", "sub"}
	if i.config.UsernameClaim != "" {
		claimNames = []string{i.config.UsernameClaim}
	}
	for _, claim := range claimNames {
		var name string
		if json.Unmarshal(c.all[claim], &name) == nil && name != "" && (claim != "email" || c.isTrue("email_verified")) {
			return name, nil
		}
	}
	return "", unauthenticated("the token has no claim %q, or the issuer has not verified its value: request a scope with this claim in oidc.scopes, or name another claim in oidc.username_claim",
		i.config.UsernameClaim)
}

func (c *claims) isTrue(claim string) bool {
	var yes bool
	return json.Unmarshal(c.all[claim], &yes) == nil && yes
}

// listOf returns the strings of a claim that is a list of strings or a single string. It leaves out empty strings, and
// returns nil for any other claim.
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

func unauthenticated(format string, args ...any) error {
	return fleet.Errorf(fleet.ReasonUnauthenticated, format, args...)
}
