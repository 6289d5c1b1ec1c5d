package identity

import (
	"context"
	"strings"

	"fleet/internal/fleet"
)

// Tokens is the source that recognizes Fleet's own tokens. Their secrets begin with fleet.TokenPrefix.
type Tokens struct {
	// Lookup returns the principal of a secret, or an error as Source.Authenticate does.
	Lookup func(ctx context.Context, secret string) (fleet.Principal, error)
	// AgentsOnly restricts the source to tokens that the server creates for agents.
	AgentsOnly bool
}

// Credentials implements Source.
func (t Tokens) Credentials() string {
	if t.AgentsOnly {
		return ""
	}
	return "Fleet tokens (" + fleet.TokenPrefix + "...)"
}

// Recognizes implements Source.
func (t Tokens) Recognizes(secret string) bool {
	return fleet.IsAgentSecret(secret) || !t.AgentsOnly && strings.HasPrefix(secret, fleet.TokenPrefix)
}

// Authenticate implements Source.
func (t Tokens) Authenticate(ctx context.Context, secret string) (fleet.Principal, error) {
	return t.Lookup(ctx, secret)
}
