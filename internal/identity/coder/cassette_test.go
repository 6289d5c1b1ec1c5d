package coder_test

import (
	"context"
	"flag"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/coder/v2/codersdk"
	"github.com/stretchr/testify/require"
	"gopkg.in/dnaeon/go-vcr.v3/cassette"
	"gopkg.in/dnaeon/go-vcr.v3/recorder"

	"fleet/internal/fleet"
	"fleet/internal/identity/coder"
)

// record makes TestRecorded record the cassettes from a test bed (testdata/coder-testbed). The variables that the test bed
// prints must be set. TestRecorded creates tokens in the test bed and revokes them.
var record = flag.Bool("record", false, "record the cassettes from a real Coder deployment")

const (
	cassettes = "../../../testdata/cassettes/identity"
	address   = "http://coder.test" // the deployment's address in cassettes
)

// recordedDeployment is a real Coder whose answers are recorded or replayed.
type recordedDeployment struct {
	*testing.T
	users    *coder.Users
	now      time.Time         // the source's current time
	tokenIDs map[string]string // ids of tokens, with their replacements in the cassette
}

// newDeployment returns a deployment that uses the cassette with the test's name.
func newDeployment(t *testing.T) *recordedDeployment {
	t.Helper()
	d := &recordedDeployment{T: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), tokenIDs: map[string]string{}}
	o := &recorder.Options{
		CassetteName: filepath.Join(cassettes, t.Name()[strings.Index(t.Name(), "/")+1:]), Mode: recorder.ModeReplayOnly, SkipRequestLatency: true,
	}
	deploymentURL := address
	if *record {
		o.Mode, deploymentURL = recorder.ModeRecordOnly, os.Getenv("CODER_URL")
	}
	r, err := recorder.NewWithOptions(o)
	require.NoError(t, err, "the cassette cannot be opened: run the test with -record to record it")
	r.SetMatcher(func(r *http.Request, i cassette.Request) bool {
		u, err := url.Parse(i.URL)
		return err == nil && r.Method == i.Method && r.URL.Path == u.Path && r.URL.RawQuery == u.RawQuery
	})
	r.AddHook(d.scrub, recorder.BeforeSaveHook)
	d.users, err = coder.New(coder.Config{URL: deploymentURL}, fakeRecordSubject, coder.Options{Transport: r, Now: func() time.Time { return d.now }})
	require.NoError(t, err)
	t.Cleanup(func() {
		d.users.Close()
		require.NoError(t, r.Stop())
	})
	return d
}

// scrub removes credentials from a recorded request and its answer, and everything that differs between recordings.
func (d *recordedDeployment) scrub(i *cassette.Interaction) error {
	i.Request.Headers, i.Response.Headers, i.Response.Duration = nil, http.Header{"Content-Type": i.Response.Headers["Content-Type"]}, 0
	i.Request.URL, i.Request.Host, i.Request.RemoteAddr = strings.Replace(i.Request.URL, os.Getenv("CODER_URL"), address, 1), "", ""
	for id, replacement := range d.tokenIDs {
		i.Request.URL, i.Response.Body = strings.ReplaceAll(i.Request.URL, id, replacement), strings.ReplaceAll(i.Response.Body, id, replacement)
	}
	return nil
}

// newToken returns a new token of the test bed's user, and a function that revokes it. In a cassette, the letter repeated ten
// times replaces the id of the token. In a replay, the token is not created.
func (d *recordedDeployment) newToken(user, letter string, scope codersdk.APIKeyScope) (secret string, revoke func()) {
	d.Helper()
	if !*record {
		return strings.Repeat(letter, 10) + "-" + strings.Repeat(letter, 22), func() {}
	}
	u, err := url.Parse(os.Getenv("CODER_URL"))
	require.NoError(d, err)
	client := codersdk.New(u, codersdk.WithSessionToken(os.Getenv("TESTBED_"+strings.ToUpper(user)+"_TOKEN")))
	key, err := client.CreateToken(d.Context(), codersdk.Me, codersdk.CreateTokenRequest{
		Lifetime: time.Hour, Scope: scope, TokenName: filepath.Base(d.Name()) + "-" + letter + "-" + time.Now().Format("150405"),
	})
	require.NoError(d, err)
	id, _, _ := strings.Cut(key.Key, "-")
	d.tokenIDs[id] = strings.Repeat(letter, 10)
	done := false
	revoke = func() {
		if !done {
			done = true
			require.NoError(d, client.DeleteAPIKey(context.Background(), codersdk.Me, id))
		}
	}
	d.Cleanup(revoke)
	return key.Key, revoke
}

// TestRecorded checks Users against the recorded answers of a real Coder deployment.
func TestRecorded(t *testing.T) {
	t.Parallel()
	t.Run("users", func(t *testing.T) {
		t.Parallel()
		d := newDeployment(t)
		for _, c := range []struct {
			user, letter string
			want         fleet.Scope
		}{{"alice", "a", fleet.ScopeRun}, {"admin", "b", fleet.ScopeAdmin}} {
			secret, _ := d.newToken(c.user, c.letter, codersdk.APIKeyScopeCoderAll)
			p, err := d.users.Authenticate(t.Context(), secret)
			require.NoError(t, err)
			require.Equal(t, "coder:"+c.user, p.Name)
			require.Equal(t, c.want, p.Scope)
			require.False(t, p.ExpiresAt.IsZero())
		}
	})
	t.Run("revoked", func(t *testing.T) {
		t.Parallel()
		d := newDeployment(t)
		secret, revoke := d.newToken("alice", "a", codersdk.APIKeyScopeCoderAll)
		_, err := d.users.Authenticate(t.Context(), secret)
		require.NoError(t, err)
		revoke()
		d.now = d.now.Add(29 * time.Second)
		_, err = d.users.Authenticate(t.Context(), secret)
		require.NoError(t, err, "the answer must be remembered for 30 seconds")
		d.now = d.now.Add(time.Second)
		_, err = d.users.Authenticate(t.Context(), secret)
		requireReason(t, fleet.ReasonUnauthenticated, err, "unknown, expired or revoked")
	})
	t.Run("narrow", func(t *testing.T) {
		t.Parallel()
		d := newDeployment(t)
		secret, _ := d.newToken("alice", "a", codersdk.APIKeyScopeCoderApplicationConnect)
		_, err := d.users.Authenticate(t.Context(), secret)
		requireReason(t, fleet.ReasonUnauthenticated, err, "restricted to some scopes")
	})
	t.Run("unknown", func(t *testing.T) {
		t.Parallel()
		_, err := newDeployment(t).users.Authenticate(t.Context(), alicesToken)
		requireReason(t, fleet.ReasonUnauthenticated, err, "unknown, expired or revoked")
	})
}
