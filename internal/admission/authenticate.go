package admission

import (
	"context"
	"strings"

	"google.golang.org/grpc/metadata"

	"fleet/internal/fleet"
)

// Authenticator identifies callers.
type Authenticator interface {
	// Authenticate returns the principal of the call with this metadata, or an UNAUTHENTICATED error.
	Authenticate(ctx context.Context, md metadata.MD) (fleet.Principal, error)
}

// authorization is the metadata key of the caller's credentials.
const authorization = "authorization"

// FaceKey is the metadata key that names the face of a call: "rest" or "mcp".
const FaceKey = "fleet-face"

// ControllerKey is the metadata key with which a client says that an AI makes its calls. It gives the caller no additional
// rights, so it needs no proof.
const ControllerKey = "fleet-controller"

// DetachedKey is the metadata key with which a client says that it does not wait for the task that its call starts; see
// fleet.Detached.
const DetachedKey = "fleet-detached"

// ResumesKey is the metadata key with which a client says that it repeats the call if it leaves before the end; see fleet.WorkContinues.
const ResumesKey = "fleet-resumes"

// LocalAuth identifies every caller as the one user who runs Fleet on this machine. Calls through MCP count as calls of an
// AI controller, so that the history distinguishes them from the user's own calls.
//
// A call with the token of an agent is identified as that agent, and has only the rights of an agent.
type LocalAuth struct {
	// Lookup returns the principal of an agent's secret. It is nil if agents have no tokens.
	Lookup func(ctx context.Context, secret string) (fleet.Principal, error)
	// CheckCaller returns an error unless the caller is a user of this machine who may call Fleet. If it is nil, everyone
	// may.
	CheckCaller func(ctx context.Context) error
}

// Authenticate returns the local principal, or the agent that calls.
func (a LocalAuth) Authenticate(ctx context.Context, md metadata.MD) (fleet.Principal, error) {
	for _, v := range md.Get(authorization) {
		if _, secret, _ := strings.Cut(v, " "); a.Lookup != nil && fleet.IsAgentSecret(strings.TrimSpace(secret)) {
			return a.Lookup(ctx, strings.TrimSpace(secret))
		}
	}
	if a.CheckCaller != nil {
		if err := a.CheckCaller(ctx); err != nil {
			return fleet.Principal{}, err
		}
	}
	return fleet.Principal{Name: fleet.LocalPrincipal, Kind: kindByFace(md), Scope: fleet.ScopeAdmin}, nil
}

// TokenAuth identifies callers by their token: "authorization: Bearer SECRET".
type TokenAuth struct {
	// Lookup returns the principal of a secret. The principal's kind is empty if it depends on the face of the call.
	Lookup func(ctx context.Context, secret string) (fleet.Principal, error)
}

// Authenticate returns the principal of the call's token.
func (a TokenAuth) Authenticate(ctx context.Context, md metadata.MD) (fleet.Principal, error) {
	v := md.Get(authorization)
	if len(v) == 0 {
		return fleet.Principal{}, fleet.Errorf(fleet.ReasonUnauthenticated, "a token is required").Next("send it as \"Authorization: Bearer TOKEN\"; `fleet token create` makes one")
	}
	scheme, secret, ok := strings.Cut(v[0], " ")
	if !ok || !strings.EqualFold(scheme, "bearer") || len(v) > 1 {
		return fleet.Principal{}, fleet.Errorf(fleet.ReasonUnauthenticated, "the Authorization header must be one \"Bearer TOKEN\"")
	}
	p, err := a.Lookup(ctx, strings.TrimSpace(secret))
	if p.Kind == "" { // the credentials of a person; if the call comes through MCP, an AI uses them
		p.Kind = kindByFace(md)
	}
	return p, err
}

// kindByFace returns the kind of a caller whose credentials do not determine it. The kind is controller for a call that came through
// MCP or has ControllerKey, and human for any other call.
func kindByFace(md metadata.MD) fleet.PrincipalKind {
	if v := md.Get(FaceKey); len(v) > 0 && v[0] == "mcp" || len(md.Get(ControllerKey)) > 0 {
		return fleet.KindController
	}
	return fleet.KindHuman
}
