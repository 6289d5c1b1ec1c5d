package oidctest

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"maps"
	"net/url"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/uuid"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// store is the library's in-memory store, with the users, clients, keys and lifetimes of the test.
type store struct {
	*storage.Storage
	issuer *Issuer

	mu            sync.Mutex
	key           key
	lifetime      time.Duration
	revokedBefore time.Time // refresh tokens of sign-ins before this are refused
}

func newStore(i *Issuer) *store {
	s := &store{issuer: i, lifetime: time.Hour}
	s.Storage = storage.NewStorageWithClients(i, map[string]*storage.Client{
		ClientID: storage.WebClient(ClientID, ClientSecret), CLIClientID: storage.NativeClient(CLIClientID),
	})
	s.rotateKey()
	return s
}

func (s *store) rotateKey() {
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.key = key{uuid.NewString(), private}
}

func (s *store) expiry() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Add(s.lifetime)
}

func (s *store) SigningKey(context.Context) (op.SigningKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.key, nil
}

func (s *store) KeySet(context.Context) ([]op.Key, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return []op.Key{publicKey{s.key}}, nil
}

func (s *store) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	c, err := s.Storage.GetClientByClientID(ctx, id)
	if err != nil {
		return nil, err
	}
	return client{c, s}, nil
}

func (s *store) CreateAccessToken(ctx context.Context, r op.TokenRequest) (string, time.Time, error) {
	id, _, err := s.Storage.CreateAccessToken(ctx, r)
	return id, s.expiry(), err
}

func (s *store) CreateAccessAndRefreshTokens(ctx context.Context, r op.TokenRequest, current string) (string, string, time.Time, error) {
	access, refresh, _, err := s.Storage.CreateAccessAndRefreshTokens(ctx, r, current)
	return access, refresh, s.expiry(), err
}

func (s *store) TokenRequestByRefreshToken(ctx context.Context, token string) (op.RefreshTokenRequest, error) {
	r, err := s.Storage.TokenRequestByRefreshToken(ctx, token)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.GetAuthTime().Before(s.revokedBefore) {
		return nil, errors.New("the session has ended")
	}
	return r, nil
}

// SetUserinfoFromRequest adds the user's claims to ID tokens.
func (s *store) SetUserinfoFromRequest(ctx context.Context, info *oidc.UserInfo, r op.IDTokenRequest, scopes []string) error {
	if err := s.Storage.SetUserinfoFromRequest(ctx, info, r, scopes); err != nil {
		return err
	}
	for name, value := range s.claims(r.GetSubject()) {
		info.AppendClaims(name, value)
	}
	return nil
}

// GetPrivateClaimsFromScopes adds the user's claims to access tokens.
func (s *store) GetPrivateClaimsFromScopes(_ context.Context, subject, _ string, _ []string) (map[string]any, error) {
	return s.claims(subject), nil
}

func (s *store) claims(subject string) map[string]any {
	for _, u := range s.issuer.users {
		if u.Subject == subject {
			claims := maps.Clone(u.Claims)
			if claims == nil {
				claims = map[string]any{}
			}
			if u.Groups != nil {
				claims["groups"] = u.Groups
			}
			return claims
		}
	}
	return nil
}

func (*store) Health(context.Context) error { return nil }

// client is a client of the library's store. It may use the authorization code and device flows and refresh tokens, and its access
// tokens are JWTs.
type client struct {
	op.Client
	store *store
}

func (client) LoginURL(id string) string { return "/login?id=" + url.QueryEscape(id) }

func (client) AccessTokenType() op.AccessTokenType { return op.AccessTokenTypeJWT }

func (c client) IDTokenLifetime() time.Duration {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	return c.store.lifetime
}

func (client) IDTokenUserinfoClaimsAssertion() bool { return true }

func (client) IsScopeAllowed(scope string) bool { return scope == "groups" }

// DevMode implements op.Client: redirects may be to loopback addresses without TLS.
func (client) DevMode() bool { return true }

func (client) GrantTypes() []oidc.GrantType {
	return []oidc.GrantType{oidc.GrantTypeCode, oidc.GrantTypeRefreshToken, oidc.GrantTypeDeviceCode}
}

// RedirectURIGlobs implements op.HasRedirectGlobs. It allows any port, because servers of tests choose a free port.
func (c client) RedirectURIGlobs() []string {
	var globs []string
	for _, host := range []string{"127.0.0.1", "localhost"} {
		globs = append(globs, "http://"+host+":*/callback", "http://"+host+":*/session/oidc/callback")
	}
	return globs
}

// PostLogoutRedirectURIGlobs implements op.HasRedirectGlobs.
func (client) PostLogoutRedirectURIGlobs() []string { return nil }

// key is the key with which the issuer signs tokens. It is an op.SigningKey.
type key struct {
	id      string
	private *rsa.PrivateKey
}

func (key) SignatureAlgorithm() jose.SignatureAlgorithm { return jose.RS256 }

func (k key) Key() any { return k.private }

func (k key) ID() string { return k.id }

// publicKey is the part of a key that the issuer publishes. It is an op.Key.
type publicKey struct{ key }

func (publicKey) Algorithm() jose.SignatureAlgorithm { return jose.RS256 }

func (publicKey) Use() string { return "sig" }

func (k publicKey) Key() any { return &k.private.PublicKey }
