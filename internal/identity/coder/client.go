package coder

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coder/coder/v2/codersdk"

	"fleet/internal/fleet"
)

// requestTimeout is how long Coder may take to identify the holder of a token, in all requests together.
const requestTimeout = 10 * time.Second

// user is the Coder user who holds a token.
type user struct {
	id, name string
	roles    []string  // roles in the deployment, without roles in an organization
	groups   []string  // as ORGANIZATION/GROUP
	expires  time.Time // when the token expires
}

// client sends requests to a deployment with the tokens of callers.
type client struct {
	url  *url.URL
	http *http.Client
}

func newClient(u *url.URL, transport http.RoundTripper) *client {
	if transport == nil {
		t, _ := http.DefaultTransport.(*http.Transport)
		transport = t.Clone()
	}
	return &client{url: u, http: &http.Client{
		Transport: transport, Timeout: requestTimeout,
		// Do not follow redirects, because they would send the token to another address.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// whois returns the holder of the token. It returns UNAUTHENTICATED if the token is not valid or does not permit everything that its
// holder may do, or if the holder is suspended. It returns BACKEND_UNAVAILABLE if Coder cannot answer now.
func (c *client) whois(ctx context.Context, token string) (*user, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	sdk := codersdk.New(c.url, codersdk.WithSessionToken(token), codersdk.WithHTTPClient(c.http))
	me, err := sdk.User(ctx, codersdk.Me)
	if err != nil {
		return nil, translateError(err)
	}
	if me.Status == codersdk.UserStatusSuspended {
		return nil, fleet.Errorf(fleet.ReasonUnauthenticated, "the Coder user %q is suspended", fleet.Shorten(me.Username, 80))
	}
	id, _, _ := strings.Cut(token, "-")
	key, err := sdk.APIKeyByID(ctx, codersdk.Me, id)
	if err != nil {
		return nil, translateError(err)
	}
	if key.UserID != me.ID || !isUnrestricted(key) {
		return nil, errRestricted
	}
	u := &user{id: me.ID.String(), name: me.Username, expires: key.ExpiresAt}
	for _, r := range me.Roles {
		if r.OrganizationID == "" { // the admins of an organization choose the names of its own roles
			u.roles = append(u.roles, r.Name)
		}
	}
	u.groups, err = groups(ctx, sdk, me)
	return u, err
}

// errRestricted is the error for a token that does not permit everything that its user may do.
var errRestricted = fleet.Errorf(fleet.ReasonUnauthenticated, "the Coder token is restricted to some scopes, so Fleet does not accept it: use a session token, or a token with the scope all")

// isUnrestricted reports whether the key permits everything that its user may do. With any other key, the holder would get
// more rights in Fleet than in Coder.
func isUnrestricted(k *codersdk.APIKey) bool {
	for _, t := range k.AllowList {
		if t != codersdk.AllowAllTarget() {
			return false
		}
	}
	return slices.ContainsFunc(append(k.Scopes, k.Scope), func(s codersdk.APIKeyScope) bool {
		return s == "all" || s == codersdk.APIKeyScopeCoderAll // older deployments use the name all
	})
}

// groups returns the groups of the user as ORGANIZATION/GROUP. It returns none if the deployment has no licence for groups, or does not
// let the user list them.
func groups(ctx context.Context, sdk *codersdk.Client, me codersdk.User) ([]string, error) {
	all, err := sdk.Groups(ctx, codersdk.GroupArguments{HasMember: me.ID.String()})
	if code := statusOf(err); code == http.StatusNotFound || code == http.StatusForbidden {
		return nil, nil
	}
	if err != nil {
		return nil, translateError(err)
	}
	var names []string
	for _, g := range all {
		names = append(names, g.OrganizationName+"/"+g.Name)
	}
	return names, nil
}

// translateError translates an error of a request to Coder. The result does not contain anything from the request.
func translateError(err error) error {
	var answer *codersdk.Error
	if !errors.As(err, &answer) {
		if errors.Is(err, context.DeadlineExceeded) {
			return unavailable("Coder did not answer in time", failureCacheTime)
		}
		return unavailable("Coder cannot be reached", failureCacheTime)
	}
	switch code := answer.StatusCode(); code {
	case http.StatusUnauthorized, http.StatusSeeOther, http.StatusTemporaryRedirect:
		return fleet.Errorf(fleet.ReasonUnauthenticated, "Coder does not accept the token: it is unknown, expired or revoked").
			Next("`coder login` or `coder tokens create` makes a new one")
	case http.StatusForbidden, http.StatusNotFound:
		return errRestricted
	case http.StatusTooManyRequests:
		return unavailable("Coder's rate limit is reached", throttledCacheTime)
	default:
		return unavailable(fmt.Sprintf("Coder answers with status %d", code), failureCacheTime)
	}
}

// statusOf returns the HTTP status of Coder's answer; 0 if err is nil or Coder did not answer.
func statusOf(err error) int {
	var answer *codersdk.Error
	if errors.As(err, &answer) {
		return answer.StatusCode()
	}
	return 0
}
