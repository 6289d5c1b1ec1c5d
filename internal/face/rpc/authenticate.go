package rpc

import (
	"context"
	"strings"

	"google.golang.org/grpc/metadata"

	"fleet/internal/fleet"
)

// Authenticator tells who a caller is.
type Authenticator interface {
	// Authenticate returns the principal of the call with this metadata, or an UNAUTHENTICATED error.
	Authenticate(ctx context.Context, md metadata.MD) (fleet.Principal, error)
}

// authorization is the metadata key of the caller's credentials.
const authorization = "authorization"

// FaceKey is the metadata key that says through which face a call came: "rest" or "mcp".
const FaceKey = "fleet-face"

// NoAuth takes every caller for the one person who runs Fleet on this machine. Calls through MCP count as an AI
// controller's, so that the history tells them apart.
//
// An agent that calls with the token it was given is that agent all the same, and may do no more than it may elsewhere.
type NoAuth struct {
	// Lookup returns the principal of a secret; nil when agents have none.
	Lookup func(ctx context.Context, secret string) (fleet.Principal, error)
	// Local returns an error unless the call comes from a user of this machine who is served; nil when all are.
	Local func(ctx context.Context) error
}

// Authenticate returns the local principal, or the agent that calls.
func (a NoAuth) Authenticate(ctx context.Context, md metadata.MD) (fleet.Principal, error) {
	for _, v := range md.Get(authorization) {
		if _, secret, _ := strings.Cut(v, " "); a.Lookup != nil && fleet.IsAgentSecret(strings.TrimSpace(secret)) {
			return a.Lookup(ctx, strings.TrimSpace(secret))
		}
	}
	if a.Local != nil {
		if err := a.Local(ctx); err != nil {
			return fleet.Principal{}, err
		}
	}
	p := fleet.Principal{Name: fleet.LocalPrincipal, Kind: fleet.Human, Admin: true}
	if v := md.Get(FaceKey); len(v) > 0 && v[0] == "mcp" {
		p.Kind = fleet.Controller
	}
	return p, nil
}

// TokenAuth takes callers for whom their token stands: "authorization: Bearer SECRET".
type TokenAuth struct {
	// Lookup returns the principal of a secret.
	Lookup func(ctx context.Context, secret string) (fleet.Principal, error)
}

// Authenticate returns the principal of the call's token.
func (a TokenAuth) Authenticate(ctx context.Context, md metadata.MD) (fleet.Principal, error) {
	v := md.Get(authorization)
	if len(v) == 0 {
		return fleet.Principal{}, fleet.Errorf(fleet.ReasonUnauthenticated, "a token is required: send it as \"Authorization: Bearer TOKEN\"; `fleet token create` makes one")
	}
	scheme, secret, ok := strings.Cut(v[0], " ")
	if !ok || !strings.EqualFold(scheme, "bearer") || len(v) > 1 {
		return fleet.Principal{}, fleet.Errorf(fleet.ReasonUnauthenticated, "the Authorization header must be one \"Bearer TOKEN\"")
	}
	return a.Lookup(ctx, strings.TrimSpace(secret))
}
