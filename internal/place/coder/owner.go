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
	"github.com/google/uuid"

	"fleet/internal/fleet"
)

const (
	ownerTokenLife  = time.Hour        // lifetime of a token that Fleet creates for an owner
	ownerTokenRenew = 15 * time.Minute // a token is replaced if it expires within this time
	revokeTimeout   = 5 * time.Second  // limit for revoking all tokens when the place is closed
)

// owners holds the tokens of the Coder users on whose behalf Fleet acts.
type owners struct {
	mu     sync.Mutex
	tokens map[string]*ownerToken // by the user's id or name; by both if the id became known after the name was used
}

// ownerToken is a token that Fleet created for an owner. It is kept in memory only.
type ownerToken struct {
	user    string // the user's id if it is known, else the name; protected by owners.mu
	mu      sync.Mutex
	account *account
	key     string
	expires time.Time
}

// Users maps principals to Coder users and vice versa.
type Users interface {
	// UserOf returns the id of the principal's Coder user, or "" if the principal has not signed in with Coder.
	UserOf(ctx context.Context, principal string) (id string, err error)
	// PrincipalOf returns the principal of the Coder user, even if the user has not signed in yet.
	PrincipalOf(ctx context.Context, id, name string) (principal string, err error)
}

// sourceSeparator separates the source of a principal from the name that the principal has in the source, see
// fleet.Subject.
const sourceSeparator = ":"

// userOf returns the Coder user of the agent's owner. If Config.Users is set and the owner has a source, as in coder:alice, the result
// is the id of the user that the owner has signed in as. userOf returns INVALID_ARGUMENT if the owner has not signed in with Coder.
// Without Config.Users or a source, the result is the owner's name.
func (p *Place) userOf(ctx context.Context, a fleet.Agent) (string, error) {
	if p.config.Users == nil || !strings.Contains(a.Owner, sourceSeparator) {
		return a.Owner, nil
	}
	id, err := p.config.Users.UserOf(ctx, a.Owner)
	if err != nil {
		return "", err
	}
	if id == "" {
		return "", fleet.Errorf(fleet.ReasonInvalidArgument,
			"%q is not a Coder user, but on this server each agent's workspace belongs to the Coder user of the agent's owner (coder.owner is principal): sign in with a Coder session token", a.Owner)
	}
	return id, nil
}

// principalOf returns the owner of the agent in the workspace: the principal of the workspace's Coder user. It is the user's name if
// Config.Users is nil, or if one user owns all workspaces.
func (p *Place) principalOf(ctx context.Context, ws codersdk.Workspace) (string, error) {
	if p.config.Users == nil || p.config.Owner == OwnerSelf {
		return ws.OwnerName, nil
	}
	return p.config.Users.PrincipalOf(ctx, ws.OwnerID.String(), ws.OwnerName)
}

// ownerAccount returns the Coder user who owns the agent's workspace, in the form for paths of requests, and the account that sends
// requests as that user.
func (p *Place) ownerAccount(ctx context.Context, a fleet.Agent) (string, *account, error) {
	me, err := p.whoami(ctx)
	if err != nil || p.config.Owner == OwnerSelf {
		return codersdk.Me, p.self, err
	}
	user, err := p.userOf(ctx, a)
	if err != nil {
		return "", nil, err
	}
	if strings.EqualFold(user, me.Username) {
		return user, p.self, nil
	}
	account, err := p.accountOf(user, me)
	return user, account, err
}

// accountOf returns the account that sends requests as the Coder user with the id or, if the id is not known, the name. me is the
// user of Fleet's own token. The error is PERMISSION_DENIED if user is empty or a nil UUID.
func (p *Place) accountOf(user string, me codersdk.User) (*account, error) {
	o := &p.owners
	o.mu.Lock()
	defer o.mu.Unlock()
	if p.config.Owner == OwnerSelf || user == me.ID.String() {
		return p.self, nil
	}
	if user == "" || user == uuid.Nil.String() {
		return nil, fleet.Errorf(fleet.ReasonPermissionDenied, "the agent's workspace has no owner in Coder")
	}
	t := o.tokens[user]
	if t == nil {
		t = &ownerToken{user: user}
		t.account = p.newAccount(func(ctx context.Context) (string, error) { return p.tokenFor(ctx, user, t) })
		t.account.onRefused = t.forget
		o.tokens[user] = t
	}
	return t.account, nil
}

// recordUserID records the id of the user with the name, which Coder has just reported, so that the id and the name share a
// token.
func (p *Place) recordUserID(name string, id uuid.UUID) {
	o := &p.owners
	o.mu.Lock()
	defer o.mu.Unlock()
	if t := o.tokens[name]; t != nil && o.tokens[id.String()] == nil {
		o.tokens[id.String()] = t
		t.user = id.String()
	}
}

// tokenFor returns a token of the user. If the token expires within ownerTokenRenew, or there is none, it creates a token and
// revokes the old one.
func (p *Place) tokenFor(ctx context.Context, user string, t *ownerToken) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := p.config.Now()
	if t.key != "" && t.expires.Sub(now) > ownerTokenRenew {
		return t.key, nil
	}
	var suffix [4]byte
	_, _ = rand.Read(suffix[:]) // never fails
	key, err := p.self.sdk.CreateToken(ctx, user, codersdk.CreateTokenRequest{Lifetime: ownerTokenLife, TokenName: "fleet-" + hex.EncodeToString(suffix[:])})
	if code := statusOf(err); code == http.StatusBadRequest || code == http.StatusNotFound {
		return "", fleet.Errorf(fleet.ReasonInvalidArgument,
			"Coder has no user %q, but on this server each agent's workspace belongs to the Coder user with the name of the agent's owner (coder.owner is principal)", user).WithCause(err)
	}
	if err != nil {
		return "", translate("making a token for the Coder user "+user, err)
	}
	old := t.key
	t.key, t.expires = key.Key, now.Add(ownerTokenLife)
	if old != "" {
		p.revoke(ctx, user, old)
	}
	return t.key, nil
}

// forget drops a token that Coder does not accept, for example because somebody has revoked it. The next request creates
// another token.
func (t *ownerToken) forget(token string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.key == token {
		t.key = ""
	}
}

// revoke revokes a token. It only logs a failure, because the token expires soon anyway.
func (p *Place) revoke(ctx context.Context, user, key string) {
	id, _, _ := strings.Cut(key, "-")
	if err := p.self.sdk.DeleteAPIKey(ctx, user, id); err != nil && !isNotFound(err) {
		p.config.Logger.WarnContext(ctx, "cannot revoke an owner's token, it expires soon", "user", user)
	}
}

// close revokes and forgets all tokens. It only logs failures.
func (o *owners) close(p *Place) {
	o.mu.Lock()
	all := o.tokens
	o.tokens = map[string]*ownerToken{}
	o.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), revokeTimeout)
	defer cancel()
	for _, t := range all {
		t.mu.Lock()
		if t.key != "" {
			p.revoke(ctx, t.user, t.key)
		}
		t.key = ""
		t.mu.Unlock()
	}
}
