package service

import (
	"context"
	"crypto/rand"
	"regexp"
	"slices"
	"time"

	"fleet/internal/fleet"
)

// agentPrincipal returns the principal of a call with the agent's own token. The token is valid for the task t; t is nil for a token
// that an old version made. The principal has the name of the agent's owner.
func agentPrincipal(a *fleet.Agent, t *fleet.Task) fleet.Principal {
	p := fleet.Principal{Name: a.Owner, Kind: fleet.KindAgent, Scope: fleet.ScopeRun, AgentUID: a.UID, AgentName: a.Name}
	if t != nil {
		p.TaskID, p.Grant, p.OnlyDelegates = t.ID, t.Delegation.Grant, t.Delegation.Grant != nil && a.Config == nil
	}
	if a.Config != nil && a.Config.Name != "" {
		p.AgentName = a.Config.Name
	}
	return p
}

var tokenNamePattern = regexp.MustCompile(`^[A-Za-z0-9._-]{1,40}$`)

// Authenticate returns the principal of the token with the secret. The error is UNAUTHENTICATED if there is no valid token.
func (s *Service) Authenticate(ctx context.Context, secret string) (fleet.Principal, error) {
	t, err := s.tokens.Get(ctx, fleet.HashSecret(secret))
	if err != nil {
		return fleet.Principal{}, err
	}
	valid := t != nil && t.Valid(s.now())
	if valid && t.AgentUID == "" {
		return t.Principal(), nil
	}
	var a *fleet.Agent
	var task *fleet.Task
	if valid {
		err = s.store.View(ctx, func(tx fleet.ReadTx) (err error) {
			if a, err = tx.Agent(t.AgentUID); err != nil || t.TaskID == "" {
				return err
			}
			task, err = tx.Task(t.TaskID)
			return err
		})
	}
	switch {
	case err != nil:
		return fleet.Principal{}, err
	case a == nil:
		return fleet.Principal{}, fleet.Errorf(fleet.ReasonUnauthenticated, "the token is unknown, expired or revoked").Next("`fleet token create` makes a new one")
	}
	return agentPrincipal(a, task), nil
}

// CreateTokenRequest describes the token to create.
type CreateTokenRequest struct {
	Name  string
	Kind  fleet.PrincipalKind
	Scope fleet.Scope
	// Projects are the projects that the token is valid for; empty: all.
	Projects []string
	TTL      time.Duration // 0: it does not expire
}

// CreateToken creates a token and returns it with its secret. Only a hash of the secret is stored. ownedAgents is the number of existing
// agents that belong to the token's name, for example because of an earlier token. The error is TOKEN_EXISTS if a token of this name
// is not revoked.
func (s *Service) CreateToken(ctx context.Context, r CreateTokenRequest) (t *fleet.Token, secret string, ownedAgents int, err error) {
	switch {
	case !tokenNamePattern.MatchString(r.Name):
		return nil, "", 0, fleet.Invalid(fleet.ReasonInvalidName, "name", "the token's name %q is not valid: use 1 to 40 of A-Z a-z 0-9 . _ and -", fleet.Shorten(r.Name, 60))
	case r.Kind != fleet.KindHuman && r.Kind != fleet.KindController && r.Kind != fleet.KindAgent:
		return nil, "", 0, fleet.InvalidField("kind", "kind is %q: it must be human, controller or agent", r.Kind)
	case r.TTL < 0:
		return nil, "", 0, errNegative("ttl_seconds")
	case r.Scope == fleet.ScopeAdmin && len(r.Projects) > 0:
		return nil, "", 0, fleet.InvalidField("projects", "a token with scope admin cannot be restricted to projects, because its holder could create an unrestricted one: leave out projects, or give scope read or run")
	case len(r.Projects) > maxTokenProjects:
		return nil, "", 0, fleet.InvalidField("projects", "projects has %d names and the limit is %d", len(r.Projects), maxTokenProjects)
	}
	projects, err := s.tokenProjects(ctx, r.Projects)
	if err != nil {
		return nil, "", 0, err
	}
	secret = newSecret()
	err = s.store.Update(ctx, func(tx fleet.Tx) error {
		if old, err := fleet.CurrentToken(tx.Tokens(fleet.TokenFilter{Name: r.Name})); err != nil || old != nil && old.RevokedAt.IsZero() {
			if err == nil {
				err = fleet.Errorf(fleet.ReasonTokenExists, "token %q already exists", r.Name).Next("choose another name, or revoke it with {revoke_token} first").
					With("token", r.Name).With("field", "name")
			}
			return err
		}
		h, err := tx.Holdings(r.Name, fleet.Limits{}, fleet.HoldingsScope{})
		if err != nil {
			return err
		}
		ownedAgents = h.AllAgents()
		now := s.now()
		t = &fleet.Token{Name: r.Name, Kind: r.Kind, Scope: r.Scope, Projects: projects, Hash: fleet.HashSecret(secret), CreatedAt: now}
		if r.TTL > 0 {
			t.ExpiresAt = now.Add(r.TTL)
		}
		return tx.Insert(t)
	})
	return t, secret, ownedAgents, err
}

// maxTokenProjects is how many projects a token can be restricted to.
const maxTokenProjects = 100

// tokenProjects returns the exact names of the projects without repetitions: NAME, or PLACE/NAME if the reference names the place.
func (s *Service) tokenProjects(ctx context.Context, refs []string) (projects []string, err error) {
	for _, ref := range refs {
		match, place, err := s.places.MatchFleetProjects(ctx, ref)
		if err != nil {
			return nil, asInvalid(err, "projects")
		}
		name := match[0].Name
		if place != "" {
			name = place + "/" + name
		}
		if !slices.Contains(projects, name) {
			projects = append(projects, name)
		}
	}
	return projects, nil
}

func newSecret() string { return fleet.TokenPrefix + rand.Text() + rand.Text() }

func errNegative(field string) error {
	return fleet.InvalidField(field, "%s is negative: give a number of seconds, or 0", field)
}

// ListTokens returns the tokens, sorted by name and then from the oldest to the newest. It leaves out tokens of agents. It includes
// revoked and expired tokens.
func (s *Service) ListTokens(ctx context.Context) ([]*fleet.Token, error) {
	return view(ctx, s.store, func(tx fleet.ReadTx) ([]*fleet.Token, error) { return tx.Tokens(fleet.TokenFilter{All: true}) })
}

// MaxTokenOverlap is the maximum time for which the old secret of a rotated token still works.
const MaxTokenOverlap = 7 * 24 * time.Hour

// MaxRotations is the maximum number of new secrets that a token gets within rotationTime. There is a limit because the old secrets
// stay in the store.
const (
	MaxRotations = 20
	rotationTime = time.Hour
)

// RotateToken gives the token a new secret and returns the token and the secret. oldSecretEnds is when the old secret stops
// working: after overlap, or when it expires if that is earlier. The new secret expires after ttl; 0 means after the lifetime that
// the old secret had.
func (s *Service) RotateToken(ctx context.Context, name string, ttl, overlap time.Duration) (t *fleet.Token, secret string, oldSecretEnds time.Time, err error) {
	return s.rotate(ctx, name, ttl, overlap, func(old, replacement *fleet.Token) error {
		switch now := replacement.CreatedAt; {
		case ttl > 0:
			replacement.ExpiresAt = now.Add(ttl)
		case !old.ExpiresAt.IsZero():
			replacement.ExpiresAt = now.Add(old.ExpiresAt.Sub(old.CreatedAt))
		}
		return nil
	})
}

// RotateOwnToken works like RotateToken, for the caller's own token. The new secret expires after ttl, but not later than the
// old secret; a ttl of 0 means at the same time as the old secret.
func (s *Service) RotateOwnToken(ctx context.Context, ttl, overlap time.Duration) (t *fleet.Token, secret string, oldSecretEnds time.Time, err error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, "", oldSecretEnds, err
	}
	if p.TokenHash == "" {
		return nil, "", oldSecretEnds, fleet.Errorf(fleet.ReasonTokenNotFound, "this call was made without a token of this server, so there is none to rotate").
			Next("make the call with a token from `fleet token create`")
	}
	return s.rotate(ctx, p.Name, ttl, overlap, func(old, replacement *fleet.Token) error {
		if old.Hash != p.TokenHash {
			return fleet.Errorf(fleet.ReasonPermissionDenied, "another secret has replaced this one of token %q", p.Name).Next("rotate with the newer one")
		}
		if ttl > 0 {
			replacement.ExpiresAt = replacement.CreatedAt.Add(ttl)
		}
		if !old.ExpiresAt.IsZero() && replacement.ExpiresAt.After(old.ExpiresAt) {
			return fleet.InvalidField("ttl_seconds", "the token expires at %s and its holder cannot extend that: give fewer ttl_seconds, or ask an admin", old.ExpiresAt.Format(time.RFC3339))
		}
		return nil
	})
}

// rotate replaces the newest secret of the token, and ends the secrets before it at once. setExpiry sets when the replacement, a
// copy of the old token, expires. An error of setExpiry refuses the rotation.
func (s *Service) rotate(
	ctx context.Context, name string, ttl, overlap time.Duration, setExpiry func(old, replacement *fleet.Token) error,
) (t *fleet.Token, secret string, oldSecretEnds time.Time, err error) {
	switch {
	case ttl < 0:
		return nil, "", oldSecretEnds, errNegative("ttl_seconds")
	case overlap < 0:
		return nil, "", oldSecretEnds, errNegative("overlap_seconds")
	case overlap > MaxTokenOverlap:
		return nil, "", oldSecretEnds, fleet.InvalidField("overlap_seconds", "overlap_seconds is %d: give at most %d, which is 7 days", overlap/time.Second, MaxTokenOverlap/time.Second)
	}
	secret = newSecret()
	err = s.store.Update(ctx, func(tx fleet.Tx) error {
		old, err := findToken(tx, name)
		if err != nil {
			return err
		}
		now := s.now()
		if !old.RevokedAt.IsZero() {
			return fleet.Errorf(fleet.ReasonTokenNotFound, "token %q is revoked, so it gets no new secret", old.Name).With("token", old.Name).
				Next("{create_token} makes a new token of this name")
		}
		n := *old
		n.Hash, n.CreatedAt = fleet.HashSecret(secret), now
		if err := setExpiry(old, &n); err != nil {
			return err
		}
		secrets, err := tx.Tokens(fleet.TokenFilter{Name: name})
		if err != nil {
			return err
		}
		if err := checkRotations(secrets, now); err != nil {
			return err
		}
		if err := endOverlaps(tx, secrets, now); err != nil {
			return err
		}
		old.RevokedAt = now.Add(overlap)
		if err := tx.Update(old); err != nil {
			return err
		}
		t, oldSecretEnds = &n, old.End()
		return tx.Insert(t)
	})
	return t, secret, oldSecretEnds, err
}

// findToken returns the token of the name, which may be revoked; see fleet.CurrentToken. The error is TOKEN_NOT_FOUND if there
// is none.
func findToken(tx fleet.ReadTx, name string) (*fleet.Token, error) {
	t, err := fleet.CurrentToken(tx.Tokens(fleet.TokenFilter{Name: name}))
	if err == nil && t == nil {
		err = fleet.Errorf(fleet.ReasonTokenNotFound, "token %q not found", fleet.Shorten(name, 60)).With("token", fleet.Shorten(name, 60)).
			Next("{list_tokens} shows the existing tokens")
	}
	return t, err
}

// checkRotations returns LIMIT_REACHED if the token with the secrets has had MaxRotations rotations within rotationTime.
func checkRotations(secrets []*fleet.Token, now time.Time) error {
	if len(secrets) <= MaxRotations {
		return nil
	}
	first := secrets[len(secrets)-MaxRotations] // of the last rotations
	wait := first.CreatedAt.Add(rotationTime).Sub(now)
	if wait <= 0 {
		return nil
	}
	return fleet.Errorf(fleet.ReasonLimitReached, "token %q was rotated %d times in the last hour, which is the limit: try again later", first.Name, MaxRotations).
		AtLimit("rotations per hour", MaxRotations, MaxRotations).After(wait)
}

// endOverlaps ends the secrets that were replaced but still work.
func endOverlaps(tx fleet.Tx, secrets []*fleet.Token, now time.Time) error {
	for _, t := range secrets {
		if !t.RevokedAt.After(now) {
			continue
		}
		t.RevokedAt = now
		if err := tx.Update(t); err != nil {
			return err
		}
	}
	return nil
}

// RevokeToken revokes a token with all its secrets. It returns the token as it is if it is revoked already.
func (s *Service) RevokeToken(ctx context.Context, name string) (t *fleet.Token, err error) {
	err = s.store.Update(ctx, func(tx fleet.Tx) error {
		if t, err = findToken(tx, name); err != nil {
			return err
		}
		now := s.now()
		secrets, err := tx.Tokens(fleet.TokenFilter{Name: name})
		if err != nil {
			return err
		}
		if err := endOverlaps(tx, secrets, now); err != nil || !t.RevokedAt.IsZero() {
			return err
		}
		t.RevokedAt = now
		return tx.Update(t)
	})
	return t, err
}
