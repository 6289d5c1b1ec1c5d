package fleet

import (
	"context"
)

// Kind is the kind of a principal, which determines the source of the tasks it starts.
type Kind string

// The kinds of principals.
const (
	Human      Kind = "human"
	Controller Kind = "controller"
	AgentKind  Kind = "agent"
)

// Principal is the caller. It sees and changes only what it owns; an admin sees and changes everything.
type Principal struct {
	Name  string
	Kind  Kind
	Admin bool
	// AgentUID and AgentName identify an agent with a token of its own. Name is then its owner, and only methods for
	// agents may be called.
	AgentUID, AgentName string
}

// LocalPrincipal is the name of the caller on a server without tokens.
const LocalPrincipal = "local"

// Source returns the source of tasks that p starts.
func (p Principal) Source() Source {
	switch p.Kind {
	case Controller:
		return SourceAIController
	case AgentKind:
		return SourceAgent
	}
	return SourceHuman
}

// MaySee reports whether p may see what owner owns.
func (p Principal) MaySee(owner string) bool { return p.Admin || p.Name == owner }

// MayTouch reports whether p may see and change the agent: its owner may, and so may the agent itself.
func (p Principal) MayTouch(a *Agent) bool {
	if p.AgentUID != "" {
		return p.AgentUID == a.UID
	}
	return p.MaySee(a.Owner)
}

type principalKey struct{}

// WithPrincipal returns a context for calls of p.
func WithPrincipal(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// PrincipalFrom returns the caller, or UNAUTHENTICATED if the context has none.
func PrincipalFrom(ctx context.Context) (Principal, error) {
	p, ok := ctx.Value(principalKey{}).(Principal)
	if !ok || p.Name == "" {
		return Principal{}, Errorf(ReasonUnauthenticated, "no principal: send a token as \"Authorization: Bearer TOKEN\"")
	}
	return p, nil
}
