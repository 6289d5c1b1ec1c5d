package rpc

import (
	"context"
	"fmt"
	"time"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/service"
)

// Tokens serves TokenService.
type Tokens struct {
	fleetv1.UnimplementedTokenServiceServer
	svc *service.Service
}

// NewTokens returns the TokenService over the core.
func NewTokens(svc *service.Service) *Tokens { return &Tokens{svc: svc} }

// CreateToken creates a token.
func (s *Tokens) CreateToken(ctx context.Context, r *fleetv1.CreateTokenRequest) (*fleetv1.CreateTokenResponse, error) {
	kind := fleet.KindHuman
	if r.GetKind() != fleetv1.Token_kind_unspecified {
		kind = fleet.PrincipalKind(r.GetKind().String())
	}
	scope, err := tokenScope(r)
	if err != nil {
		return nil, err
	}
	t, secret, owned, err := s.svc.CreateToken(ctx, service.CreateTokenRequest{
		Name: r.GetName(), Kind: kind, Scope: scope, Projects: r.GetProjects(), TTL: time.Duration(r.GetTtlSeconds()) * time.Second,
	})
	if err != nil {
		return nil, err
	}
	return &fleetv1.CreateTokenResponse{Token: tokenOf(t), Secret: secret, OwnedAgents: int32Of(owned)}, nil
}

// tokenScope returns the scope of a new token. Older clients set the field admin instead of the scope.
func tokenScope(r *fleetv1.CreateTokenRequest) (fleet.Scope, error) {
	scope, ok := fleet.ParseScope(r.GetScope().String())
	switch {
	case r.GetAdmin() && ok && scope != fleet.ScopeAdmin:
		return scope, fleet.InvalidField("scope", "scope is %s and admin is true: give one of them", scope)
	case r.GetAdmin():
		return fleet.ScopeAdmin, nil
	case !ok:
		return fleet.ScopeRun, nil
	}
	return scope, nil
}

// ListTokens lists the tokens.
func (s *Tokens) ListTokens(ctx context.Context, _ *fleetv1.ListTokensRequest) (*fleetv1.ListTokensResponse, error) {
	tokens, err := s.svc.ListTokens(ctx)
	if err != nil {
		return nil, err
	}
	return &fleetv1.ListTokensResponse{Tokens: listOf(tokens, tokenOf)}, nil
}

// RotateToken gives a token a new secret. The old secret stays valid for overlap_seconds.
func (s *Tokens) RotateToken(ctx context.Context, r *fleetv1.RotateTokenRequest) (*fleetv1.RotateTokenResponse, error) {
	if r.GetName() == "" {
		return nil, nameRequired()
	}
	t, secret, oldEnds, err := s.svc.RotateToken(ctx, r.GetName(), time.Duration(r.GetTtlSeconds())*time.Second, time.Duration(r.GetOverlapSeconds())*time.Second)
	if err != nil {
		return nil, err
	}
	return &fleetv1.RotateTokenResponse{Token: tokenOf(t), Secret: secret, OldSecretEndsAt: timeOf(oldEnds)}, nil
}

// RotateOwnToken gives a new secret to the token that identifies the caller. It works as RotateToken does.
func (s *Tokens) RotateOwnToken(ctx context.Context, r *fleetv1.RotateOwnTokenRequest) (*fleetv1.RotateOwnTokenResponse, error) {
	t, secret, oldEnds, err := s.svc.RotateOwnToken(ctx, time.Duration(r.GetTtlSeconds())*time.Second, time.Duration(r.GetOverlapSeconds())*time.Second)
	if err != nil {
		return nil, err
	}
	return &fleetv1.RotateOwnTokenResponse{Token: tokenOf(t), Secret: secret, OldSecretEndsAt: timeOf(oldEnds)}, nil
}

func nameRequired() error {
	return fleet.InvalidField("name", "name is required: name a token, see `fleet token list`")
}

// RevokeToken revokes a token.
func (s *Tokens) RevokeToken(ctx context.Context, r *fleetv1.RevokeTokenRequest) (*fleetv1.RevokeTokenResponse, error) {
	if r.GetName() == "" {
		return nil, nameRequired()
	}
	t, err := s.svc.RevokeToken(ctx, r.GetName())
	if err != nil {
		return nil, err
	}
	return &fleetv1.RevokeTokenResponse{Token: tokenOf(t), Message: fmt.Sprintf("Token '%s' is revoked", t.Name)}, nil
}

func scopeOf(s fleet.Scope) fleetv1.Scope { return fleetv1.Scope(fleetv1.Scope_value[s.String()]) }

func tokenOf(t *fleet.Token) *fleetv1.Token {
	return &fleetv1.Token{
		Name: t.Name, Kind: fleetv1.Token_Kind(fleetv1.Token_Kind_value[string(t.Kind)]), Admin: t.Scope == fleet.ScopeAdmin, Scope: scopeOf(t.Scope), Projects: t.Projects,
		CreatedAt: timeOf(t.CreatedAt), ExpiresAt: timeOf(t.ExpiresAt), RevokedAt: timeOf(t.RevokedAt),
	}
}
