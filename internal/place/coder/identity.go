package coder

import (
	"context"
	"errors"
	"sync"

	"github.com/coder/coder/v2/codersdk"
	"github.com/google/uuid"

	"fleet/internal/fleet"
)

// identity caches the Coder user of Fleet's own token. Coder shows each user only some workspaces, and answers 404 for the others.
// With another user's token, every workspace would look deleted, so Fleet must know the token's user before it interprets a
// response.
type identity struct {
	mu          sync.Mutex
	token       string        // the last token whose user was requested
	user        codersdk.User // the user of that token
	firstUserID string        // the id of the user whose token was accepted first; used if neither Config.User nor Config.RememberUser is set
	refusal     error         // why the token is refused; nil if it is accepted
}

// verifiedToken returns the token for requests as Fleet's own user. If Config.User or Config.RememberUser is set, it first asks Coder
// for the token's user, and fails with fleet.ErrOtherIdentity if that is not the expected user. So no other request is sent as the
// wrong user. If neither is set, it does not check the token.
func (p *Place) verifiedToken(ctx context.Context) (string, error) {
	token, err := p.config.Token(ctx)
	if err != nil || p.config.User == "" && p.config.RememberUser == nil {
		return token, err
	}
	_, err = p.userOfToken(ctx, token)
	return token, err
}

// whoami returns the Coder user of Fleet's own token.
func (p *Place) whoami(ctx context.Context) (codersdk.User, error) {
	token, err := p.config.Token(ctx)
	if err != nil {
		return codersdk.User{}, translate("asking Coder whose token Fleet has", tokenError{err})
	}
	return p.userOfToken(ctx, token)
}

// userOfToken returns the user of the token. It fails with fleet.ErrOtherIdentity if Fleet's token must belong to another user. It
// caches the answer for the last token, because the user of a token never changes.
func (p *Place) userOfToken(ctx context.Context, token string) (codersdk.User, error) {
	id := &p.identity
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.token == token && token != "" {
		return id.user, id.refusal
	}
	acc := p.newAccount(func(context.Context) (string, error) { return token, nil })
	u, err := callCoder(ctx, "asking Coder whose token Fleet has", func(ctx context.Context) (codersdk.User, error) {
		return acc.sdk.User(ctx, codersdk.Me)
	})
	if fleet.ReasonOf(err) == fleet.ReasonProvisioningFailed { // 404: every user may read their own user, unless the token has limited scopes
		err = fleet.Errorf(fleet.ReasonBackendUnavailable,
			"the Coder token may not even read its own user, so its scopes are limited: use a token with all scopes, as `coder tokens create` makes without --scope").WithCause(errors.Join(ErrToken, err))
	}
	if err == nil && u.ID == uuid.Nil {
		err = unavailable("asking Coder whose token Fleet has failed: the answer names no user")
	}
	if err != nil {
		return codersdk.User{}, err
	}
	expectedID := p.config.User
	if expectedID == "" && p.config.RememberUser != nil {
		if expectedID, err = p.config.RememberUser(ctx, u.ID.String()); err != nil {
			return codersdk.User{}, err
		}
	}
	if expectedID == "" {
		if id.firstUserID == "" {
			id.firstUserID = u.ID.String()
		}
		expectedID = id.firstUserID
	}
	id.token, id.user, id.refusal = token, u, nil
	if expectedID != u.ID.String() {
		id.refusal = fleet.Errorf(fleet.ReasonBackendUnavailable,
			"the Coder token belongs to the user %s (%s), but the agents of this Fleet belong to the Coder user %s: give the server a token of that user, or set coder.user to %s to go on as %s",
			u.Username, u.ID, expectedID, u.ID, u.Username).WithCause(fleet.ErrOtherIdentity)
		p.config.Logger.ErrorContext(ctx, "coder token belongs to another user, nothing is done", "user", u.Username, "user_id", u.ID.String(), "expected_id", expectedID)
	}
	return id.user, id.refusal
}
