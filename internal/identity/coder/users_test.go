package coder_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/coder/v2/codersdk"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/identity"
	"fleet/internal/identity/coder"
	"fleet/internal/identity/coder/codertest"
)

const alicesToken = "aaaaaaaaaa-aaaaaaaaaaaaaaaaaaaaaa"

// fakeRecordSubject returns the name that the subject gets if the name is free.
func fakeRecordSubject(_ context.Context, s fleet.Subject) (string, error) {
	return s.PrincipalName(), nil
}

func newUsers(t *testing.T, d *codertest.Deployment, c coder.Config) *coder.Users {
	t.Helper()
	c.URL = d.URL
	u, err := coder.New(c, fakeRecordSubject, coder.Options{Now: d.Now, Network: func(ctx context.Context) netip.Prefix {
		network, _ := ctx.Value(networkKey{}).(netip.Prefix)
		return network
	}})
	require.NoError(t, err)
	t.Cleanup(u.Close)
	return u
}

type networkKey struct{}

func requireReason(t *testing.T, want fleet.Reason, err error, says ...string) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, want, fleet.ReasonOf(err), "%v", err)
	require.NotContains(t, err.Error(), "aaaaaaaaaaaaaaaaaaaaaa", "an error must not contain the secret")
	for _, text := range says {
		require.ErrorContains(t, err, text)
	}
}

func TestPrincipal(t *testing.T) {
	t.Parallel()
	d := codertest.New(t)
	d.Add("Alice", alicesToken)
	d.Groups = []codersdk.Group{{Name: "devs", OrganizationName: "acme"}}
	p, err := newUsers(t, d, coder.Config{}).Authenticate(t.Context(), alicesToken)
	require.NoError(t, err)
	require.Equal(t, "coder:alice", p.Name)
	require.Equal(t, fleet.ScopeRun, p.Scope)
	require.Equal(t, []string{"coder:acme/devs"}, p.Groups)
	require.False(t, p.ExpiresAt.IsZero())
	require.Empty(t, p.Kind, "the kind must be left to package admission")
}

// TestRecognizes checks which secrets have the form of Coder's session tokens.
func TestRecognizes(t *testing.T) {
	t.Parallel()
	u := newUsers(t, codertest.New(t), coder.Config{})
	for secret, want := range map[string]bool{
		alicesToken: true, "fleet_" + alicesToken: false, alicesToken + "a": false, "a" + alicesToken: false, "": false, "a-b": false,
		"eyJhbGciOiJSUzI1NiJ9.e30.c2ln": false, "aaaaaaaaaa-aaaaaaaaaaaaaaaaaaaaa\n": false, uuid.NewString(): false,
	} {
		require.Equal(t, want, u.Recognizes(secret), "%q", secret)
	}
}

func TestRoles(t *testing.T) {
	t.Parallel()
	roles := identity.Roles{"owner": "admin", "auditor": "viewer", "acme/ops": "admin"}
	for name, c := range map[string]struct {
		roles       []codersdk.SlimRole
		groups      []codersdk.Group
		defaultRole string
		want        fleet.Scope
		denied      bool
	}{
		"an owner":                        {roles: []codersdk.SlimRole{{Name: "owner"}}, want: fleet.ScopeAdmin},
		"the greatest role":               {roles: []codersdk.SlimRole{{Name: "auditor"}, {Name: "owner"}}, want: fleet.ScopeAdmin},
		"less than the default":           {roles: []codersdk.SlimRole{{Name: "auditor"}}, want: fleet.ScopeRun},
		"an organization's role":          {roles: []codersdk.SlimRole{{Name: "owner", OrganizationID: "acme"}}, want: fleet.ScopeRun},
		"a group":                         {groups: []codersdk.Group{{Name: "ops", OrganizationName: "acme"}}, want: fleet.ScopeAdmin},
		"a group of another organization": {groups: []codersdk.Group{{Name: "ops", OrganizationName: "evil"}}, want: fleet.ScopeRun},
		"a group named like a role":       {groups: []codersdk.Group{{Name: "owner", OrganizationName: "evil"}}, want: fleet.ScopeRun},
		"no role":                         {defaultRole: "none", denied: true},
		"a role, where others have none":  {defaultRole: "none", roles: []codersdk.SlimRole{{Name: "auditor"}}, want: fleet.ScopeRead},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := codertest.New(t)
			d.Add("alice", alicesToken, c.roles...)
			d.Groups = c.groups
			p, err := newUsers(t, d, coder.Config{Roles: roles, DefaultRole: c.defaultRole}).Authenticate(t.Context(), alicesToken)
			if c.denied {
				requireReason(t, fleet.ReasonPermissionDenied, err, `"alice"`, "no role")
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, p.Scope)
		})
	}
}

// TestNarrowTokens checks that a token with fewer rights than its user is refused. Otherwise its holder would get more rights
// in Fleet than in Coder.
func TestNarrowTokens(t *testing.T) {
	t.Parallel()
	for name, narrow := range map[string]func(*codersdk.APIKey){
		"of an app":        func(k *codersdk.APIKey) { k.Scope, k.Scopes = "application_connect", nil },
		"with some scopes": func(k *codersdk.APIKey) { k.Scope, k.Scopes = "", []codersdk.APIKeyScope{"user:read", "api_key:read"} },
		"for one thing": func(k *codersdk.APIKey) {
			k.AllowList = []codersdk.APIAllowListTarget{{Type: "workspace", ID: uuid.NewString()}}
		},
		"of somebody else": func(k *codersdk.APIKey) { k.UserID = uuid.New() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := codertest.New(t)
			d.Add("alice", alicesToken)
			k := d.Keys[alicesToken]
			narrow(&k)
			d.Keys[alicesToken] = k
			_, err := newUsers(t, d, coder.Config{}).Authenticate(t.Context(), alicesToken)
			requireReason(t, fleet.ReasonUnauthenticated, err, "restricted")
		})
	}
}

func TestSuspended(t *testing.T) {
	t.Parallel()
	d := codertest.New(t)
	d.Add("alice", alicesToken)
	u := d.Users[alicesToken]
	u.Status = codersdk.UserStatusSuspended
	d.Users[alicesToken] = u
	_, err := newUsers(t, d, coder.Config{}).Authenticate(t.Context(), alicesToken)
	requireReason(t, fleet.ReasonUnauthenticated, err, "suspended")
}

// TestCache checks that Coder is asked once in 30 seconds, and that a revoked token is refused after that.
func TestCache(t *testing.T) {
	t.Parallel()
	d := codertest.New(t)
	d.Add("alice", alicesToken)
	u := newUsers(t, d, coder.Config{})
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := u.Authenticate(t.Context(), alicesToken); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	requests := d.Requests.Load()
	require.EqualValues(t, 3, requests, "one check must request the user, the key and the groups once")
	d.Change(func() { delete(d.Users, alicesToken) })
	d.Advance(29 * time.Second)
	_, err := u.Authenticate(t.Context(), alicesToken)
	require.NoError(t, err)
	d.Advance(time.Second)
	_, err = u.Authenticate(t.Context(), alicesToken)
	requireReason(t, fleet.ReasonUnauthenticated, err, "does not accept")
	requests = d.Requests.Load()
	for range 5 {
		_, err = u.Authenticate(t.Context(), alicesToken)
		requireReason(t, fleet.ReasonUnauthenticated, err)
	}
	require.Equal(t, requests, d.Requests.Load(), "a refusal must be remembered too")
}

// TestUnreachable checks that a token is not refused as unknown while Coder does not answer.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	d := codertest.New(t)
	d.Add("alice", alicesToken)
	u := newUsers(t, d, coder.Config{})
	_, err := u.Authenticate(t.Context(), alicesToken)
	require.NoError(t, err)
	for _, status := range []int{http.StatusBadGateway, http.StatusTooManyRequests, http.StatusInternalServerError} {
		d.Change(func() { d.Status = status })
		d.Advance(30 * time.Second)
		_, err = u.Authenticate(t.Context(), alicesToken)
		requireReason(t, fleet.ReasonBackendUnavailable, err, "try again")
	}
	d.Change(func() { d.Status = 0 })
	d.Advance(10 * time.Second)
	_, err = u.Authenticate(t.Context(), alicesToken)
	require.NoError(t, err)
	d.Close()
	d.Advance(30 * time.Second)
	_, err = u.Authenticate(t.Context(), alicesToken)
	requireReason(t, fleet.ReasonBackendUnavailable, err, "cannot be reached")
}

// TestRedirect checks that a token is sent only to the configured address.
func TestRedirect(t *testing.T) {
	t.Parallel()
	var leaked atomic.Bool
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { leaked.Store(true) }))
	t.Cleanup(elsewhere.Close)
	d := codertest.New(t)
	d.Add("alice", alicesToken)
	d.RedirectTo = elsewhere.URL
	_, err := newUsers(t, d, coder.Config{}).Authenticate(t.Context(), alicesToken)
	requireReason(t, fleet.ReasonUnauthenticated, err)
	require.False(t, leaked.Load())
}

// TestFlood checks that many invented tokens cause only a few requests to Coder. Users at other addresses, and users whose
// tokens are known, must still be served.
func TestFlood(t *testing.T) {
	t.Parallel()
	d := codertest.New(t)
	d.Add("alice", alicesToken)
	u := newUsers(t, d, coder.Config{})
	_, err := u.Authenticate(t.Context(), alicesToken)
	require.NoError(t, err)
	d.Advance(time.Minute) // alice's answer is outdated
	requestsBefore := d.Requests.Load()
	for range 12_000 { // more than the cache holds
		digits := strings.ReplaceAll(uuid.NewString(), "-", "")
		flooder := context.WithValue(t.Context(), networkKey{}, netip.MustParsePrefix("2001:db8::/64"))
		_, err := u.Authenticate(flooder, digits[:10]+"-"+digits[10:]) // 32 digits
		require.Error(t, err)
	}
	require.LessOrEqual(t, d.Requests.Load()-requestsBefore, int64(30))
	_, err = u.Authenticate(t.Context(), alicesToken)
	require.NoError(t, err)
	const bobsToken = "bbbbbbbbbb-bbbbbbbbbbbbbbbbbbbbbb"
	d.Add("bob", bobsToken)
	_, err = u.Authenticate(context.WithValue(t.Context(), networkKey{}, netip.MustParsePrefix("192.0.2.1/32")), bobsToken)
	require.NoError(t, err)
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]coder.Config{
		"coder_auth.url":          {URL: "coder.example.com"},
		"coder_auth.roles.owner":  {Roles: identity.Roles{"owner": "king"}},
		"coder_auth.default_role": {DefaultRole: "guest"},
	} {
		require.ErrorContains(t, c.Validate(), want)
	}
	require.NoError(t, coder.Config{}.Validate())
	_, err := coder.New(coder.Config{}, fakeRecordSubject, coder.Options{})
	require.ErrorContains(t, err, "CODER_URL")
}
