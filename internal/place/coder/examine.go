package coder

import (
	"context"
	"net/http"
	"time"

	"github.com/coder/coder/v2/codersdk"
)

// Examination is the result of Examine.
type Examination struct {
	Version string
	User    string    // name of the user of Fleet's token
	Clock   time.Time // the deployment's time; zero if its answer has no date
}

// Examine requests the deployment's version and time, and the name of the user of Fleet's token.
func (b *Place) Examine(ctx context.Context) (x Examination, err error) {
	resp, err := b.self.sdk.Request(ctx, http.MethodGet, "/api/v2/buildinfo", nil)
	if err != nil {
		return x, translate("asking Coder for its version", err)
	}
	_ = resp.Body.Close()
	x.Clock, _ = http.ParseTime(resp.Header.Get("Date"))
	build, err := b.self.sdk.BuildInfo(ctx)
	if err != nil {
		return x, translate("asking Coder for its version", err)
	}
	x.Version = build.Version
	user, err := b.self.sdk.User(ctx, codersdk.Me)
	if err != nil {
		return x, translate("asking Coder whose token this is", err)
	}
	x.User = user.Username
	return x, nil
}
