// Package identity turns the credentials of a call into a principal. Each source of principals recognizes its credentials
// by their form: Fleet's own tokens, Coder's session tokens, JWTs of an OIDC issuer. The faces call a Chain of the
// configured sources, and need not know which these are.
package identity

import (
	"context"
	"strings"

	"fleet/internal/fleet"
)

// Source identifies callers by credentials of one form. Its methods are safe for concurrent use.
type Source interface {
	// Credentials returns what the source takes, for errors: "Fleet tokens".
	Credentials() string

	// Recognizes reports whether the secret has the form of the source's credentials, valid or not. It makes no request.
	Recognizes(secret string) bool

	// Authenticate returns the principal of a secret that the source recognizes. The error is UNAUTHENTICATED if the secret
	// is not valid or no longer valid, and BACKEND_UNAVAILABLE if that is unknown now. Authenticate is called for every
	// call, and twice a second for the credentials of open streams, so it must usually answer from memory. Errors do not
	// contain the secret.
	Authenticate(ctx context.Context, secret string) (fleet.Principal, error)
}

// Chain is the sources of a server. The first that recognizes a secret decides, and no other is asked: a secret that one
// source refuses must not be shown to another one.
type Chain []Source

// Authenticate returns the principal of the secret.
func (c Chain) Authenticate(ctx context.Context, secret string) (fleet.Principal, error) {
	for _, s := range c {
		if s.Recognizes(secret) {
			return s.Authenticate(ctx, secret)
		}
	}
	return fleet.Principal{}, fleet.Errorf(fleet.ReasonUnauthenticated, "the token has an unknown form: this server takes %s", c.credentials())
}

// credentials lists what the sources take.
func (c Chain) credentials() string {
	var all []string
	for _, s := range c {
		if text := s.Credentials(); text != "" {
			all = append(all, text)
		}
	}
	return strings.Join(all, ", ")
}
