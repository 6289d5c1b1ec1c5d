package app

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"

	"fleet/internal/admission"
	"fleet/internal/face/inbound"
	"fleet/internal/fleet"
	"fleet/internal/identity"
	coderusers "fleet/internal/identity/coder"
	"fleet/internal/loopback"
	"fleet/internal/place/coder"
	"fleet/internal/service"
)

// Auth lists the kinds of credentials that the server accepts: AuthNone alone, or any of the other kinds.
type Auth []string

// Values in Auth.
const (
	AuthNone   = "none"
	AuthTokens = "tokens"
	AuthCoder  = "coder"
	AuthOIDC   = "oidc"
)

// authNames are the kinds of credentials that can be combined.
var authNames = []string{AuthTokens, AuthCoder, AuthOIDC}

// UnmarshalYAML reads a list, or a single value: `auth: tokens`.
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

// Has reports whether the server accepts credentials of the kind.
func (a Auth) Has(kind string) bool { return slices.Contains(a, kind) }

// String returns the kinds, separated by commas.
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

// authenticator returns the authenticator for the callers of the server. If o.Auth is set, this function returns it. Otherwise it depends
// on the configuration whether callers need tokens, or must be the local user.
func (a *App) authenticator(o Options) (admission.Authenticator, error) {
	switch {
	case o.Auth != nil:
		return o.Auth(), nil
	case a.cfg.Auth.None():
		return admission.LocalAuth{Lookup: a.service.Authenticate, CheckCaller: localUserCheck(a.cfg, o)}, nil
	}
	sources, err := a.openSources(o)
	return admission.TokenAuth{Lookup: sources.Authenticate}, err
}

// openSources returns the sources that identify callers by their secrets, in the order in which they are asked. Fleet's own tokens come
// first; without auth tokens, only those of agents are valid. A source of an outside issuer gets the names of its principals from
// a.service.RecordSubject. If callers can have tokens of Coder, openSources sets a.coderUsers.
func (a *App) openSources(o Options) (chain identity.Chain, err error) {
	chain = identity.Chain{identity.Tokens{Lookup: a.service.Authenticate, AgentsOnly: !a.cfg.Auth.Has(AuthTokens)}}
	if a.cfg.Auth.Has(AuthCoder) {
		c := a.cfg.CoderAuth
		c.URL = cmp.Or(c.URL, a.cfg.coderURL())
		if err := a.cfg.validateCoderAuth(c.URL); err != nil {
			return nil, err
		}
		if o.CoderUsers.Now == nil {
			o.CoderUsers.Now = a.store.Now
		}
		if o.CoderUsers.Network == nil {
			o.CoderUsers.Network = inbound.Network
		}
		if a.coderUsers, err = coderusers.New(c, a.service.RecordSubject, o.CoderUsers); err != nil {
			return nil, err
		}
		chain = append(chain, a.coderUsers)
	}
	if a.issuer != nil {
		chain = append(chain, a.issuer)
	}
	return chain, nil
}

// validateCoderAuth returns an error if callers' tokens would cross the network unencrypted to the URL of Coder. Anyone on that
// network could read them, and answer in Coder's place.
func (c Config) validateCoderAuth(address string) error {
	u, err := url.Parse(address)
	if !c.Auth.Has(AuthCoder) || c.InsecurePlaintext || err != nil || u.Scheme != "http" || loopback.Is(u.Hostname()) {
		return nil //nolint:nilerr // another check refuses such a URL
	}
	return fmt.Errorf("with auth coder, the tokens of callers would cross the network unencrypted to %s: use https, or set insecure_plaintext if nobody else can read this network", address)
}

// coderURL returns the URL of the Coder deployment from the configuration, else from the environment, else from the login of
// Coder's CLI.
func (c Config) coderURL() string {
	home, _ := os.UserHomeDir() // without a home directory, there is no login
	return cmp.Or(c.Coder.URL, coder.FindURL(os.Getenv, home))
}

// coderPrincipals maps between principals and Coder users for the place coder.
type coderPrincipals struct{ service func() *service.Service }

// UserOf implements coder.Users.
func (c coderPrincipals) UserOf(ctx context.Context, principal string) (string, error) {
	return c.service().SubjectOf(ctx, coderusers.SourceName, principal)
}

// PrincipalOf implements coder.Users.
func (c coderPrincipals) PrincipalOf(ctx context.Context, id, name string) (string, error) {
	return c.service().FindOrAddPrincipal(ctx, fleet.Subject{Source: coderusers.SourceName, ID: id, Name: name})
}
