package coder

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/coder/coder/v2/codersdk"
)

// Examination describes the deployment and Fleet's token.
type Examination struct {
	Version string    // of Coder
	User    string    // name of the user of Fleet's token
	Clock   time.Time // the deployment's time; zero if its response has no date
	Expires time.Time // when the token expires; zero if that is not known, and for the token of a login
}

// Examine requests the deployment's version and time, and the user and the expiry of Fleet's token.
func (p *Place) Examine(ctx context.Context) (x Examination, err error) {
	resp, err := p.self.sdk.Request(ctx, http.MethodGet, "/api/v2/buildinfo", nil)
	if err != nil {
		return x, translate("asking Coder for its version", err)
	}
	_ = resp.Body.Close()
	x.Clock, _ = http.ParseTime(resp.Header.Get("Date"))
	build, err := p.self.sdk.BuildInfo(ctx)
	if err != nil {
		return x, translate("asking Coder for its version", err)
	}
	x.Version = build.Version
	user, err := p.whoami(ctx)
	if err != nil {
		return x, err
	}
	x.User = user.Username
	token, err := p.config.Token(ctx)
	if err != nil {
		return x, translate("reading the token", tokenError{err})
	}
	id, _, _ := strings.Cut(token, "-")
	// Fleet can work even if the user may not read the key. Coder extends the token of a login with every use.
	if key, err := p.self.sdk.APIKeyByID(ctx, codersdk.Me, id); err == nil && key.LoginType == codersdk.LoginTypeToken {
		x.Expires = key.ExpiresAt
	}
	return x, nil
}
