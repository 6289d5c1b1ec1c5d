package fleet

import "context"

// Kind says who a principal is, and so the source of the tasks it starts.
type Kind string

// The kinds of principals.
const (
	Human      Kind = "human"
	Controller Kind = "controller"
	AgentKind  Kind = "agent"
)

// Principal is who calls. It sees and touches only what it owns; an admin everything.
type Principal struct {
	Name  string
	Kind  Kind
	Admin bool
	// AgentUID and AgentName say which agent it is, when it is one that has a token for itself alone. Name is its owner
	// then, and nothing but the methods that are for agents may be called.
	AgentUID, AgentName string
}

// LocalPrincipal is the name of whoever calls a server that asks for no tokens.
const LocalPrincipal = "local"

// stopReason is the reason of a task that p has stopped.
func (p Principal) stopReason() string {
	switch {
	case p.Name != LocalPrincipal:
		return "stopped by " + p.Name
	case p.Kind == Controller:
		return "stopped by an AI controller on the server's machine"
	case p.Kind == AgentKind:
		return "stopped by an agent"
	}
	return "stopped by a user of the server's machine"
}

// Source is the source of a task that p starts.
func (p Principal) Source() Source {
	switch p.Kind {
	case Controller:
		return SourceAIController
	case AgentKind:
		return SourceAgent
	}
	return SourceHuman
}

// MaySee says whether p may see what owner owns.
func (p Principal) MaySee(owner string) bool { return p.Admin || p.Name == owner }

// MayTouch says whether p may see and change the agent: its owner may, and the agent itself.
func (p Principal) MayTouch(a *Agent) bool {
	if p.AgentUID != "" {
		return p.AgentUID == a.UID
	}
	return p.MaySee(a.Owner)
}

type principalKey struct{}

// WithPrincipal returns a context whose calls are p's.
func WithPrincipal(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// PrincipalFrom returns who calls, or UNAUTHENTICATED when nobody said.
func PrincipalFrom(ctx context.Context) (Principal, error) {
	p, ok := ctx.Value(principalKey{}).(Principal)
	if !ok || p.Name == "" {
		return Principal{}, Errorf(ReasonUnauthenticated, "no principal: send a token as \"Authorization: Bearer TOKEN\"")
	}
	return p, nil
}
