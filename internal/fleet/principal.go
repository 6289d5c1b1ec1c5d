package fleet

import (
	"context"
	"slices"
	"time"
)

// PrincipalKind is the kind of a principal. It determines the Source of the tasks that the principal starts.
type PrincipalKind string

// The kinds of principals.
const (
	KindHuman      PrincipalKind = "human"
	KindController PrincipalKind = "controller"
	KindAgent      PrincipalKind = "agent"
)

// Scope is what a principal may do. Scopes are ordered: each includes the scopes before it.
type Scope int8

// The scopes.
const (
	ScopeRead  Scope = iota // read what the principal may see; the zero value, so that an unset scope allows least
	ScopeRun                // also change what the principal owns: create agents, start tasks
	ScopeAdmin              // also see and change what others own, and manage the server
)

var scopeNames = []string{ScopeRead: "read", ScopeRun: "run", ScopeAdmin: "admin"}

// String returns the name of the scope.
func (s Scope) String() string { return scopeNames[s] }

// ParseScope returns the scope with the name, and whether there is one.
func ParseScope(name string) (Scope, bool) {
	i := slices.Index(scopeNames, name)
	return Scope(max(i, 0)), i >= 0 //nolint:gosec // there are three
}

// Principal is the caller. It sees and changes what it owns, and agents that are shared with it as far as Access says; an
// admin sees and changes everything. If Projects is set, it reaches only these projects and their agents,
// even as an admin.
type Principal struct {
	Name  string
	Kind  PrincipalKind
	Scope Scope
	// Projects are the projects to which the principal's credentials are restricted; empty: all.
	Projects []string
	// Groups are the principal's groups according to the issuer of the credentials.
	Groups []string
	// ExpiresAt is when the credentials expire; zero if they do not, or if the time is not known.
	ExpiresAt time.Time
	// TokenHash is the hash of the caller's token; empty if the caller is an agent or did not use a Token.
	TokenHash string
	// AgentUID and AgentName identify the agent if the caller is an agent with its own token. Name is then the agent's owner, and
	// the caller may only call the methods for agents and those that Grant allows.
	AgentUID, AgentName string
	// TaskID is the agent's task for which the agent's token is valid. A task that is started with the token is delegated by that
	// task.
	TaskID string
	// Grant is what the agent may delegate; nil: nothing. OnlyDelegates means that the agent's token can be used only to delegate.
	Grant         *Grant
	OnlyDelegates bool
	// UnconfinedIn is the place where the principal may run unconfined programs without being an admin; empty: nowhere.
	UnconfinedIn string
}

// Authorization is the kind and the scope of the principal that has requested something that Fleet does later.
type Authorization struct {
	Kind  PrincipalKind `json:"kind"`
	Scope Scope         `json:"scope"`
}

// Principal returns the principal with the name and this authorization.
func (a Authorization) Principal(name string) Principal {
	return Principal{Name: name, Kind: a.Kind, Scope: a.Scope}
}

// Admin reports whether p sees and changes what others own.
func (p Principal) Admin() bool { return p.Scope >= ScopeAdmin }

// Reaches reports whether p's credentials are valid for the project of the place. An agent of a toolset may have no
// project; then only credentials without a restriction to projects are valid for it.
func (p Principal) Reaches(place, project string) bool {
	return len(p.Projects) == 0 || project != "" && slices.ContainsFunc(p.Projects, func(ref string) bool {
		return ref == project || ref == place+"/"+project
	})
}

// LocalPrincipal is the name of every caller of a server that does not require tokens, except agents with their own tokens.
const LocalPrincipal = "local"

// Source returns the source of tasks that p starts.
func (p Principal) Source() Source {
	switch p.Kind {
	case KindController:
		return SourceAIController
	case KindAgent:
		return SourceAgent
	}
	return SourceHuman
}

// SeesAll reports whether p sees everything: it is an admin that is not restricted to projects.
func (p Principal) SeesAll() bool { return p.Admin() && len(p.Projects) == 0 }

// Owns reports whether p may see and change everything that belongs to owner. The owner may, and so may an admin. An agent with its own
// token owns nothing. Owns ignores the shares of agents, see Access.
func (p Principal) Owns(owner string) bool {
	return p.AgentUID == "" && (p.Admin() || p.Name == owner)
}

// OwnsAll is like Owns, but returns false if p's credentials are restricted to projects.
func (p Principal) OwnsAll(owner string) bool { return p.Owns(owner) && len(p.Projects) == 0 }

// seesOwned reports whether p sees what the owner has made with credentials that were restricted to the projects. If projects
// is empty, they were not restricted. If p's own credentials are restricted, p sees only what was made with the same
// restriction or a narrower one.
func (p Principal) seesOwned(owner string, projects []string) bool {
	return p.Owns(owner) && (len(p.Projects) == 0 || len(projects) > 0 && !slices.ContainsFunc(projects, func(name string) bool { return !slices.Contains(p.Projects, name) }))
}

// Access returns what p may do with the agent and with its tasks, questions and events. The store's filters must give the same
// result (see state.Shares).
func (p Principal) Access(a *Agent) Access {
	if !p.Reaches(a.Place, a.Project) {
		return AccessNone
	}
	if p.Owns(a.Owner) {
		return AccessOwn
	}
	best := AccessNone
	for _, s := range a.Shares {
		if !best.Allows(s.Access) && p.matches(s.Grantee) {
			best = s.Access
		}
	}
	return best
}

// ScopedAccess returns what p may do with the agent, limited by the scope of p's credentials.
func (p Principal) ScopedAccess(a *Agent) Access {
	return p.CapByScope(p.Access(a))
}

// CapByScope returns the access, limited by the scope of p's credentials.
func (p Principal) CapByScope(access Access) Access {
	if p.Scope < ScopeRun && access.Allows(AccessView) {
		return AccessView
	}
	return access
}

// Sees reports whether the agent exists for p.
func (p Principal) Sees(a *Agent) bool { return p.Access(a) != AccessNone }

// MayUseProject reports whether the project exists for p.
func (p Principal) MayUseProject(project Project) bool {
	return p.Reaches(project.Place, project.Name) && (len(project.Groups) == 0 || p.Admin() || p.inAny(project.Groups))
}

// inAny reports whether p is in one of the groups. An agent with its own token is in none.
func (p Principal) inAny(groups []string) bool {
	return slices.ContainsFunc(groups, func(g string) bool { return p.matches(Grantee{Group: g}) })
}

// MayChange reports whether p may see and change the agent. Its owner, admins and the agent itself may. An agent with its own
// token may not change other agents.
func (p Principal) MayChange(a *Agent) bool {
	if p.AgentUID != "" {
		return p.AgentUID == a.UID
	}
	return p.Access(a) == AccessOwn
}

type principalKey struct{}

// WithPrincipal returns a context that carries p as the caller.
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
