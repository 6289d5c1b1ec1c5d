// Package codertest has a fake of the part of a Coder deployment that identifies the holder of a token, for tests.
package codertest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/coder/v2/codersdk"
	"github.com/google/uuid"

	"fleet/internal/notify"
)

// Deployment answers requests about the holder of a token as Coder 2.30 does.
type Deployment struct {
	*httptest.Server
	Requests        atomic.Int64       // number of requests so far
	RequestReceived notify.Subscribers // notified of each request
	now             atomic.Int64       // Unix nanoseconds

	mu sync.Mutex
	State
}

// State has the users of a deployment, and says how its answers fail.
type State struct {
	Users      map[string]codersdk.User   // by token
	Keys       map[string]codersdk.APIKey // by token
	Groups     []codersdk.Group           // the groups of every user; nil means that the deployment has no licence for groups
	Status     int                        // the status of all answers; 0 means that the deployment works
	RedirectTo string                     // if not empty, all requests are redirected to this address
}

// New returns a deployment without users. It is closed at the end of the test.
func New(t *testing.T) *Deployment {
	t.Helper()
	d := &Deployment{State: State{Users: map[string]codersdk.User{}, Keys: map[string]codersdk.APIKey{}}}
	d.now.Store(time.Now().UnixNano())
	d.Server = httptest.NewServer(d)
	t.Cleanup(d.Close)
	return d
}

// ServeHTTP implements http.Handler.
func (d *Deployment) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.Requests.Add(1)
	d.RequestReceived.Notify()
	d.mu.Lock()
	defer d.mu.Unlock()
	token := r.Header.Get(codersdk.SessionTokenHeader)
	user, ok := d.Users[token]
	answer := func(status int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
	}
	switch {
	case d.RedirectTo != "":
		http.Redirect(w, r, d.RedirectTo, http.StatusTemporaryRedirect)
	case d.Status != 0:
		answer(d.Status, codersdk.Response{Message: "the token is " + token})
	case !ok:
		answer(http.StatusUnauthorized, codersdk.Response{Message: "Cookie \"coder_session_token\" or query parameter must be provided."})
	case r.URL.Path == "/api/v2/users/me":
		answer(http.StatusOK, user)
	case strings.HasPrefix(r.URL.Path, "/api/v2/users/me/keys/"):
		answer(http.StatusOK, d.Keys[token])
	case r.URL.Path == "/api/v2/groups" && d.Groups != nil && r.URL.Query().Get("has_member") == user.ID.String():
		answer(http.StatusOK, d.Groups)
	default:
		answer(http.StatusNotFound, codersdk.Response{Message: "Resource not found or you do not have access to this resource"})
	}
}

// Add adds a user with a token that is valid for an hour, and returns the user's id.
func (d *Deployment) Add(name, token string, roles ...codersdk.SlimRole) uuid.UUID {
	d.mu.Lock()
	defer d.mu.Unlock()
	u := codersdk.User{Roles: roles}
	u.ID, u.Username, u.Status = uuid.New(), name, codersdk.UserStatusActive
	d.Users[token] = u
	d.Keys[token] = codersdk.APIKey{
		ID: token[:10], UserID: u.ID, ExpiresAt: d.Now().Add(time.Hour), Scope: "all",
		Scopes: []codersdk.APIKeyScope{codersdk.APIKeyScopeCoderAll}, AllowList: []codersdk.APIAllowListTarget{codersdk.AllowAllTarget()},
	}
	return u.ID
}

// Change runs do with the lock held, so that do can change the state.
func (d *Deployment) Change(do func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	do()
}

// Advance sets the clock forward.
func (d *Deployment) Advance(by time.Duration) { d.now.Add(int64(by)) }

// Now returns the time of the clock.
func (d *Deployment) Now() time.Time { return time.Unix(0, d.now.Load()) }
