package service

import (
	"context"
	"crypto/rand"
	"regexp"
	"slices"
	"time"

	"fleet/internal/fleet"
)

// agentPrincipal returns the principal of an agent's token: the agent itself, for its owner.
func agentPrincipal(a *fleet.Agent) fleet.Principal {
	p := fleet.Principal{Name: a.Owner, Kind: fleet.AgentKind, Scope: fleet.ScopeRun, AgentUID: a.UID, AgentName: a.Name}
	if a.Config != nil && a.Config.Name != "" {
		p.AgentName = a.Config.Name
	}
	return p
}

var tokenName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,40}$`)

// Authenticate returns the principal of a token's secret. UNAUTHENTICATED if there is none.
func (s *Service) Authenticate(ctx context.Context, secret string) (fleet.Principal, error) {
	var t *fleet.Token
	var a *fleet.Agent
	err := s.store.View(ctx, func(tx fleet.ReadTx) (err error) {
		if t, err = tx.TokenByHash(fleet.HashSecret(secret)); err == nil && t != nil && t.AgentUID != "" {
			a, err = tx.Agent(t.AgentUID)
		}
		return err
	})
	if err != nil {
		return fleet.Principal{}, err
	}
	if t != nil && a != nil && t.Valid(s.now()) {
		return agentPrincipal(a), nil
	}
	if t == nil || t.AgentUID != "" || !t.Valid(s.now()) {
		return fleet.Principal{}, fleet.Errorf(fleet.ReasonUnauthenticated, "the token is unknown, expired or revoked").Next("`fleet token create` makes a new one")
	}
	return t.Principal(), nil
}

// OwnedAgents returns how many existing agents belong to the name, whichever of its tokens created them.
func (s *Service) OwnedAgents(ctx context.Context, name string) (n int, err error) {
	if err := s.needAdmin(ctx); err != nil {
		return 0, err
	}
	err = s.store.View(ctx, func(tx fleet.ReadTx) error {
		h, err := tx.Holdings(name)
		n = h.AllAgents()
		return err
	})
	return n, err
}

// CreateToken creates a token and returns it with its secret, which is not stored. ttl 0 means that it does not expire.
func (s *Service) CreateToken(ctx context.Context, name string, kind fleet.Kind, admin bool, ttl time.Duration) (*fleet.Token, string, error) {
	if err := s.needAdmin(ctx); err != nil {
		return nil, "", err
	}
	switch {
	case !tokenName.MatchString(name):
		return nil, "", fleet.Invalid(fleet.ReasonInvalidName, "name", "the token's name %q will not do: use 1 to 40 of A-Z a-z 0-9 . _ and -", fleet.Shorten(name, 60))
	case kind != fleet.Human && kind != fleet.Controller && kind != fleet.AgentKind:
		return nil, "", fleet.Invalid(fleet.ReasonInvalidArgument, "kind", "kind %q is none of human, controller, agent", kind)
	case ttl < 0:
		return nil, "", fleet.Invalid(fleet.ReasonInvalidArgument, "ttl_seconds", "ttl_seconds is negative: give the seconds until the token stops working, or 0")
	}
	secret := fleet.TokenPrefix + rand.Text() + rand.Text()
	var t *fleet.Token
	err := s.store.Update(ctx, func(tx fleet.Tx) error {
		if old, err := tx.Token(name); err != nil || old != nil && old.RevokedAt.IsZero() {
			if err == nil {
				err = fleet.Errorf(fleet.ReasonTokenExists, "token %q already exists", name).Next("choose another name, or revoke it with {revoke_token} first").
					With("token", name).With("field", "name")
			}
			return err
		}
		now := s.now()
		t = &fleet.Token{Name: name, Kind: kind, Admin: admin, Hash: fleet.HashSecret(secret), CreatedAt: now}
		if ttl > 0 {
			t.ExpiresAt = now.Add(ttl)
		}
		return tx.InsertToken(t)
	})
	return t, secret, err
}

// ListTokens returns the tokens, by name.
func (s *Service) ListTokens(ctx context.Context) (tokens []*fleet.Token, err error) {
	if err := s.needAdmin(ctx); err != nil {
		return nil, err
	}
	err = s.store.View(ctx, func(tx fleet.ReadTx) error {
		tokens, err = tx.Tokens()
		return err
	})
	return slices.DeleteFunc(tokens, func(t *fleet.Token) bool { return t.AgentUID != "" }), err // agents' own tokens come and go
}

// RevokeToken revokes a token. It does not change a revoked one.
func (s *Service) RevokeToken(ctx context.Context, name string) (t *fleet.Token, err error) {
	if err := s.needAdmin(ctx); err != nil {
		return nil, err
	}
	err = s.store.Update(ctx, func(tx fleet.Tx) error {
		if t, err = tx.Token(name); err != nil {
			return err
		}
		if t == nil {
			return fleet.Errorf(fleet.ReasonTokenNotFound, "token %q not found", fleet.Shorten(name, 60)).With("token", fleet.Shorten(name, 60)).
				Next("{list_tokens} shows the tokens there are")
		}
		if !t.RevokedAt.IsZero() {
			return nil
		}
		t.RevokedAt = s.now()
		return tx.UpdateToken(t)
	})
	return t, err
}

func (s *Service) needAdmin(ctx context.Context) error {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return err
	}
	if !p.Admin() {
		return fleet.Errorf(fleet.ReasonPermissionDenied, "%q may not manage tokens: it takes an admin's token", p.Name)
	}
	return nil
}
