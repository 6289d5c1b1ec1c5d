// Package identity turns the credentials of a call into a principal. There are several sources of principals: Fleet's
// own tokens, Coder's session tokens, and JWTs of an OIDC issuer. Each source recognizes its credentials by their form.
// Package app puts the configured sources into a Chain. Package admission calls the Chain, and does not depend on which sources are
// configured.
package identity

import (
	"context"
	"strings"

	"fleet/internal/fleet"
)

// Source identifies callers by credentials of one form. Its methods are safe for concurrent use.
type Source interface {
	// Credentials describes the credentials that the source accepts, for errors. An example is "Fleet tokens". It returns
	// "" if errors should not mention the source.
	Credentials() string

	// Recognizes reports whether the secret has the form of the source's credentials. It does not check whether the secret
	// is valid, and makes no request.
	Recognizes(secret string) bool

	// Authenticate returns the principal of a secret that the source recognizes. The error is UNAUTHENTICATED if the
	// secret is not valid or has expired, PERMISSION_DENIED if its holder has no role, and BACKEND_UNAVAILABLE if the
	// source cannot check the secret now. The server runs Authenticate for every call, and twice a second for each open
	// stream, so it must usually answer from memory. Errors do not contain the secret.
	Authenticate(ctx context.Context, secret string) (fleet.Principal, error)
}

// Chain is the list of a server's sources. The first source that recognizes a secret decides about it. No other source is
// asked, because a secret must not be shown to a second source after the first one has refused it.
type Chain []Source

// Authenticate returns the principal of the secret. It returns UNAUTHENTICATED if no source recognizes the secret.
func (c Chain) Authenticate(ctx context.Context, secret string) (fleet.Principal, error) {
	for _, s := range c {
		if s.Recognizes(secret) {
			return s.Authenticate(ctx, secret)
		}
	}
	return fleet.Principal{}, fleet.Errorf(fleet.ReasonUnauthenticated, "the token has an unknown form: this server accepts %s", c.credentials())
}

// credentials describes the credentials that the sources accept.
func (c Chain) credentials() string {
	var all []string
	for _, s := range c {
		if text := s.Credentials(); text != "" {
			all = append(all, text)
		}
	}
	return strings.Join(all, ", ")
}
