package coder

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/coder/v2/codersdk"

	"fleet/internal/fleet"
)

// Lifetimes of the tokens that Fleet creates for owners.
const (
	mintedLife  = time.Hour
	mintedRenew = 15 * time.Minute
	revokeTime  = 5 * time.Second // limit for revoking all tokens when the place is closed
	nameLife    = time.Minute     // how long a user's name is cached
)

// owners holds the Coder users on whose behalf Fleet acts.
type owners struct {
	mu     sync.Mutex
	me     string // name of the user of Fleet's own token; empty until it was requested
	tokens map[string]*ownerToken
	names  map[string]userName // by id of the user
}

// userName is a cached name of a Coder user. Names can change.
type userName struct {
	name  string
	until time.Time
}

// ownerToken is a token that Fleet created for an owner. It is kept in memory only.
type ownerToken struct {
	mu      sync.Mutex
	account *account
	key     string
	expires time.Time
}

func (o *owners) init() { o.tokens, o.names = map[string]*ownerToken{}, map[string]userName{} }

// Users maps principals to Coder users, and the other way round.
type Users interface {
	// UserOf returns the id of the principal's Coder user, or "" if the principal has not signed in with Coder.
	UserOf(ctx context.Context, principal string) (id string, err error)
	// PrincipalOf returns the principal of the Coder user, even if the user has not signed in yet.
	PrincipalOf(ctx context.Context, id, name string) (principal string, err error)
}

// usersSource separates the source of a principal from the name that the principal has in the source, see
// fleet.Subject.
const usersSource = ":"

// userOf returns the name of the Coder user who owns the agent.
func (b *Place) userOf(ctx context.Context, a fleet.Agent) (string, error) {
	if b.config.Users == nil || !strings.Contains(a.Owner, usersSource) {
		return a.Owner, nil
	}
	id, err := b.config.Users.UserOf(ctx, a.Owner)
	if err != nil {
		return "", err
	}
	if id == "" {
		return "", fleet.Errorf(fleet.ReasonInvalidArgument,
			"%q is not a Coder user, but on this server each agent's workspace belongs to the Coder user of the agent's owner (coder.owner is principal): sign in with a Coder session token", a.Owner)
	}
	o := &b.owners
	o.mu.Lock()
	known, ok := o.names[id]
	o.mu.Unlock()
	if ok && b.config.Now().Before(known.until) {
		return known.name, nil
	}
	u, err := ask(ctx, "looking for the Coder user "+a.Owner, func(ctx context.Context) (codersdk.User, error) {
		return b.self.sdk.User(ctx, id)
	})
	if err != nil {
		return "", err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.names[id] = userName{u.Username, b.config.Now().Add(nameLife)}
	return u.Username, nil
}

// principalOf returns the owner of the agent in the workspace, which follows from the workspace's Coder user.
func (b *Place) principalOf(ctx context.Context, ws codersdk.Workspace) (string, error) {
	if b.config.Users == nil || b.config.Owner == OwnerSelf {
		return ws.OwnerName, nil
	}
	return b.config.Users.PrincipalOf(ctx, ws.OwnerID.String(), ws.OwnerName)
}

// whoami returns the name of the Coder user of Fleet's own token.
func (b *Place) whoami(ctx context.Context) (string, error) {
	b.owners.mu.Lock()
	me := b.owners.me
	b.owners.mu.Unlock()
	if me != "" {
		return me, ctx.Err()
	}
	u, err := ask(ctx, "asking Coder whose token Fleet has", func(ctx context.Context) (codersdk.User, error) {
		return b.self.sdk.User(ctx, codersdk.Me)
	})
	if err != nil {
		return "", err
	}
	b.owners.mu.Lock()
	defer b.owners.mu.Unlock()
	b.owners.me = u.Username
	return u.Username, nil
}

// owner returns the Coder user who owns the agent's workspace, and the account for requests as that user.
func (b *Place) owner(ctx context.Context, a fleet.Agent) (string, *account, error) {
	me, err := b.whoami(ctx)
	if err != nil || b.config.Owner == OwnerSelf {
		return me, b.self, err
	}
	user, err := b.userOf(ctx, a)
	if err != nil {
		return "", nil, err
	}
	account, err := b.accountOf(user)
	return user, account, err
}

// accountOf returns the account for requests as the Coder user.
func (b *Place) accountOf(user string) (*account, error) {
	o := &b.owners
	o.mu.Lock()
	defer o.mu.Unlock()
	if b.config.Owner == OwnerSelf || strings.EqualFold(user, o.me) {
		return b.self, nil
	}
	if user == "" {
		return nil, fleet.Errorf(fleet.ReasonPermissionDenied, "the agent's workspace has no owner in Coder")
	}
	m := o.tokens[user]
	if m == nil {
		m = &ownerToken{}
		m.account = b.newAccount(func(ctx context.Context) (string, error) { return b.mint(ctx, user, m) })
		o.tokens[user] = m
	}
	return m.account, nil
}

// mint returns a token of the user. If the token expires within mintedRenew, or there is none, it creates a token and
// revokes the old one.
func (b *Place) mint(ctx context.Context, user string, m *ownerToken) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := b.config.Now()
	if m.key != "" && m.expires.Sub(now) > mintedRenew {
		return m.key, nil
	}
	var name [4]byte
	_, _ = rand.Read(name[:]) // never fails
	key, err := b.self.sdk.CreateToken(ctx, user, codersdk.CreateTokenRequest{Lifetime: mintedLife, TokenName: "fleet-" + hex.EncodeToString(name[:])})
	if code := statusOf(err); code == http.StatusBadRequest || code == http.StatusNotFound {
		return "", fleet.Errorf(fleet.ReasonInvalidArgument,
			"Coder has no user %q, but on this server each agent's workspace belongs to the Coder user with the name of the agent's owner (coder.owner is principal)", user).WithCause(err)
	}
	if err != nil {
		return "", translate("making a token for the Coder user "+user, err)
	}
	old := m.key
	m.key, m.expires = key.Key, now.Add(mintedLife)
	if old != "" {
		b.revoke(ctx, user, old)
	}
	return m.key, nil
}

// revoke revokes a token. It only logs a failure, because the token expires soon anyway.
func (b *Place) revoke(ctx context.Context, user, key string) {
	id, _, _ := strings.Cut(key, "-")
	if err := b.self.sdk.DeleteAPIKey(ctx, user, id); err != nil && !gone(err) {
		b.config.Logger.WarnContext(ctx, "cannot revoke an owner's token, it expires soon", "user", user)
	}
}

func (o *owners) close(b *Place) {
	o.mu.Lock()
	all := o.tokens
	o.tokens = map[string]*ownerToken{}
	o.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), revokeTime)
	defer cancel()
	for user, m := range all {
		m.mu.Lock()
		if m.key != "" {
			b.revoke(ctx, user, m.key)
		}
		m.key = ""
		m.mu.Unlock()
	}
}
