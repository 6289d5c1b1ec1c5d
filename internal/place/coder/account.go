package coder

import (
	"context"
	"errors"
	"net/http"
	"regexp"

	"github.com/coder/coder/v2/codersdk"

	"fleet/internal/runner/remote"
)

// account sends requests as one Coder user.
type account struct {
	throttle  *throttle
	token     func(context.Context) (string, error)
	onRefused func(token string) // called with a token that Coder does not accept; may be nil
	http      *http.Client
	sdk       *codersdk.Client
	// renewHint tells people what to do if Coder does not accept the token.
	renewHint string
}

// newAccount returns an account whose requests carry the token. token is called for each request.
func (p *Place) newAccount(token func(context.Context) (string, error)) *account {
	a := &account{throttle: p.throttle, token: token, renewHint: p.config.RenewHint}
	a.http = &http.Client{
		Transport: a,
		// Without a valid token, Coder redirects to its login page.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	a.sdk = codersdk.New(p.url, codersdk.WithHTTPClient(a.http))
	return a
}

// newTokenError returns the error for a response that says that Coder does not accept the token.
func (a *account) newTokenError() error {
	return tokenError{errors.New("Coder does not accept the token, which is unknown, expired or revoked, or its user is suspended: " + a.renewHint)}
}

// RoundTrip implements http.RoundTripper. It adds the token. If Coder does not accept the token, it returns the error of
// newTokenError. For a response that does not come from Coder, it returns a proxyError. It returns the responses to requests for
// apps unchanged.
func (a *account) RoundTrip(r *http.Request) (*http.Response, error) {
	token, err := a.token(r.Context())
	if err != nil {
		return nil, tokenError{err}
	}
	r = r.Clone(r.Context())
	r.Header.Set(codersdk.SessionTokenHeader, token)
	res, err := a.throttle.roundTrip(r)
	switch {
	case err != nil:
		return nil, err
	case isTokenRefused(res) && a.onRefused != nil && (isAppRequest(r) || isFromCoder(res)):
		a.onRefused(token)
	}
	switch {
	case isAppRequest(r):
		return res, nil
	case !isFromCoder(res):
		drain(res.Body)
		return nil, &proxyError{res.StatusCode}
	case isTokenRefused(res):
		drain(res.Body)
		return nil, a.newTokenError()
	}
	return res, nil
}

// isTokenRefused reports whether Coder responds that it does not accept the token. If the request is for an app, Coder redirects
// it to the login page. A 401 of fleet-runner is about the signature of the request, and not about the token.
func isTokenRefused(res *http.Response) bool {
	switch res.StatusCode {
	case http.StatusUnauthorized:
		return res.Header.Get(remote.VersionHeader) == ""
	case http.StatusSeeOther, http.StatusTemporaryRedirect:
		return isAppRequest(res.Request)
	}
	return false
}

// isAppRequest reports whether the request is for an app in a workspace.
func isAppRequest(r *http.Request) bool { return appPattern.MatchString(r.URL.Path) }

// appPattern matches the paths of apps. Such a path may begin with the path of the deployment's URL.
var appPattern = regexp.MustCompile(`/@[^/]+/[^/]+/apps/`)
