package fleet

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"time"
)

// tokenPrefix makes leaked secrets easy to find.
const tokenPrefix = "fleet_"

var tokenName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,40}$`)

// hashToken returns the stored hash of a secret. The secret is random and long, so a plain hash suffices.
func hashToken(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// Authenticate returns the principal of a token's secret. UNAUTHENTICATED if there is none.
func (s *Service) Authenticate(ctx context.Context, secret string) (Principal, error) {
	var t *Token
	var a *Agent
	err := s.store.View(ctx, func(tx ReadTx) (err error) {
		if t, err = tx.TokenByHash(hashToken(secret)); err == nil && t != nil && t.AgentUID != "" {
			a, err = tx.Agent(t.AgentUID)
		}
		return err
	})
	if err != nil {
		return Principal{}, err
	}
	if t != nil && a != nil && t.Valid(s.now()) {
		return holder(a), nil
	}
	if t == nil || t.AgentUID != "" || !t.Valid(s.now()) {
		return Principal{}, Errorf(ReasonUnauthenticated, "the token is unknown, expired or revoked: `fleet token create` makes a new one")
	}
	return t.Principal(), nil
}

// OwnedAgents returns how many existing agents belong to the name, whichever of its tokens created them.
func (s *Service) OwnedAgents(ctx context.Context, name string) (n int, err error) {
	if err := s.needAdmin(ctx); err != nil {
		return 0, err
	}
	err = s.store.View(ctx, func(tx ReadTx) error {
		h, err := tx.Holdings(name)
		n = h.AllAgents()
		return err
	})
	return n, err
}

// CreateToken creates a token and returns it with its secret, which is not stored. ttl 0 means that it does not expire.
func (s *Service) CreateToken(ctx context.Context, name string, kind Kind, admin bool, ttl time.Duration) (*Token, string, error) {
	if err := s.needAdmin(ctx); err != nil {
		return nil, "", err
	}
	switch {
	case !tokenName.MatchString(name):
		return nil, "", Invalid(ReasonInvalidName, "name", "the token's name %q will not do: use 1 to 40 of A-Z a-z 0-9 . _ and -", shorten(name, 60))
	case kind != Human && kind != Controller && kind != AgentKind:
		return nil, "", Invalid(ReasonInvalidArgument, "kind", "kind %q is none of human, controller, agent", kind)
	case ttl < 0:
		return nil, "", Invalid(ReasonInvalidArgument, "ttl_seconds", "ttl_seconds is negative: give the seconds until the token stops working, or 0")
	}
	secret := tokenPrefix + rand.Text() + rand.Text()
	var t *Token
	err := s.store.Update(ctx, func(tx Tx) error {
		if old, err := tx.Token(name); err != nil || old != nil && old.RevokedAt.IsZero() {
			if err == nil {
				err = Errorf(ReasonTokenExists, "token %q already exists", name).Next("choose another name, or revoke it with {revoke_token} first").
					With("token", name).With("field", "name")
			}
			return err
		}
		now := s.now()
		t = &Token{Name: name, Kind: kind, Admin: admin, Hash: hashToken(secret), CreatedAt: now}
		if ttl > 0 {
			t.ExpiresAt = now.Add(ttl)
		}
		return tx.InsertToken(t)
	})
	return t, secret, err
}

// ListTokens returns the tokens, by name.
func (s *Service) ListTokens(ctx context.Context) (tokens []*Token, err error) {
	if err := s.needAdmin(ctx); err != nil {
		return nil, err
	}
	err = s.store.View(ctx, func(tx ReadTx) error {
		tokens, err = tx.Tokens()
		return err
	})
	return slices.DeleteFunc(tokens, func(t *Token) bool { return t.AgentUID != "" }), err // agents' own tokens come and go
}

// RevokeToken revokes a token. It does not change a revoked one.
func (s *Service) RevokeToken(ctx context.Context, name string) (t *Token, err error) {
	if err := s.needAdmin(ctx); err != nil {
		return nil, err
	}
	err = s.store.Update(ctx, func(tx Tx) error {
		if t, err = tx.Token(name); err != nil {
			return err
		}
		if t == nil {
			return Errorf(ReasonTokenNotFound, "token %q not found", shorten(name, 60)).With("token", shorten(name, 60)).
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
	p, err := PrincipalFrom(ctx)
	if err != nil {
		return err
	}
	if !p.Admin {
		return Errorf(ReasonPermissionDenied, "%q may not manage tokens: it takes an admin's token", p.Name)
	}
	return nil
}
