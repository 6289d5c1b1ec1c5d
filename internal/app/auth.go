package app

import (
	"fmt"
	"slices"
	"strings"

	"fleet/internal/face/rpc"
	"fleet/internal/identity"
)

// Auth lists the credentials that the server takes: AuthNone alone, or any of the others.
type Auth []string

// Values in Auth.
const (
	AuthNone   = "none"
	AuthTokens = "tokens"
)

// authNames are the values that can be together.
var authNames = []string{AuthTokens}

// UnmarshalYAML also accepts one value alone: `auth: tokens`.
func (a *Auth) UnmarshalYAML(unmarshal func(any) error) error {
	var one string
	if err := unmarshal(&one); err == nil {
		*a = Auth{one}
		return nil
	}
	return unmarshal((*[]string)(a))
}

// None reports whether callers need no credentials.
func (a Auth) None() bool { return len(a) == 1 && a[0] == AuthNone }

// Has reports whether the server takes the credentials with the name.
func (a Auth) Has(name string) bool { return slices.Contains(a, name) }

// String returns the names with commas between them.
func (a Auth) String() string { return strings.Join(a, ",") }

func (a Auth) validate() error {
	if len(a) == 0 {
		return fmt.Errorf("auth is empty: it must be none, or one or several of %s", strings.Join(authNames, ", "))
	}
	for i, name := range a {
		switch {
		case name == AuthNone && len(a) > 1:
			return fmt.Errorf("auth has none and %q: with none, nobody needs credentials; leave one out", a[1-min(i, 1)])
		case name != AuthNone && !slices.Contains(authNames, name):
			return fmt.Errorf("auth has %q: it must be none, or one or several of %s", name, strings.Join(authNames, ", "))
		case slices.Contains(a[:i], name):
			return fmt.Errorf("auth has %q twice", name)
		}
	}
	return nil
}

// authenticator returns what identifies the callers of the server.
func (a *App) authenticator(o Options) (rpc.Authenticator, error) {
	switch {
	case o.Auth != nil:
		return o.Auth(), nil
	case a.cfg.Auth.None():
		return rpc.NoAuth{Lookup: a.service.Authenticate, Local: localUser(a.cfg, o)}, nil
	}
	sources, err := a.sources()
	return rpc.TokenAuth{Lookup: sources.Authenticate}, err
}

// sources returns the sources of the principals of callers, in the order in which they are asked whether a secret is
// theirs. A source of an outside issuer gets its principals' names from a.service.NameOf.
func (a *App) sources() (identity.Chain, error) {
	chain := identity.Chain{identity.Tokens{Lookup: a.service.Authenticate, AgentsOnly: !a.cfg.Auth.Has(AuthTokens)}}
	return chain, nil
}
