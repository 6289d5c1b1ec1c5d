package app

import (
	"context"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/coder/coder/v2/codersdk"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/identity/coder/codertest"
	"fleet/internal/waittest"
)

// These are the session tokens of the Coder users alice and root.
const (
	coderAlice = "alicealice-alicealicealicealice00"
	coderRoot  = "rootroot00-rootrootrootrootroot00"
)

// newCoderFleet returns a fleet that accepts its own tokens and session tokens of a Coder deployment, and the deployment, which has the
// users alice and root. It replaces c.Config.
func newCoderFleet(t *testing.T, c fleetConfig) (*testFleet, *codertest.Deployment) {
	t.Helper()
	d := codertest.New(t)
	d.Add("alice", coderAlice)
	d.Add("root", coderRoot, codersdk.SlimRole{Name: "owner"})
	c.Config = func(c *Config) { c.Auth, c.CoderAuth.URL = Auth{AuthTokens, AuthCoder}, d.URL }
	options := c.Options
	c.Options = func(o *Options) {
		if o.CoderUsers.Now = d.Now; options != nil {
			options(o)
		}
	}
	return newTestFleet(t, c), d
}

// TestCoderUsers checks on every face that a caller with a Coder session token is the principal of that Coder user. A
// token of Fleet with the same name must be another principal.
func TestCoderUsers(t *testing.T) {
	t.Parallel()
	for _, face := range []string{"grpc", "rest", "mcp"} {
		t.Run(face, func(t *testing.T) {
			t.Parallel()
			f, _ := newCoderFleet(t, fleetConfig{Tokens: map[string]tokenConfig{"alice": {}}})
			agent := func(caller string) map[string]any {
				r := f.call(t, face, "create_agent", caller, map[string]any{"name": "papi", "project": "Setup", "role": "coder", "spec": "s"})
				require.Nil(t, r.err, "%s", r.err)
				a, _ := r.answer.(map[string]any)["agent"].(map[string]any)
				return a
			}
			require.Equal(t, "coder:alice", agent(coderAlice)["owner"])
			require.Equal(t, "alice", agent("alice")["owner"], "the token must be another principal, who can have an agent of the same name")
			for caller, n := range map[string]int{coderAlice: 1, "alice": 1, coderRoot: 2} {
				r := f.call(t, face, "list_agents", caller, nil)
				require.Nil(t, r.err)
				list, _ := r.answer.(map[string]any)["agents"].([]any)
				require.Len(t, list, n, caller)
			}
			require.Equal(t, "UNAUTHENTICATED", f.call(t, face, "list_agents", "aliceALICE-alicealicealicealice00", nil).err.Reason)

			r := f.call(t, face, "start_agent_task", coderAlice, map[string]any{"agent_name": "papi", "task_description": "done"})
			require.Nil(t, r.err)
			task, _ := r.answer.(map[string]any)["task"].(map[string]any)
			want := "human"
			if face == "mcp" { // over MCP, the caller is an AI that uses the person's token
				want = "ai_controller"
			}
			require.Equal(t, want, task["source"])
		})
	}
}

// TestCoderRevocation checks that the streams of a Coder user end when Coder no longer accepts the token, and that they
// survive an outage of Coder.
func TestCoderRevocation(t *testing.T) {
	t.Parallel()
	f, d := newCoderFleet(t, fleetConfig{})
	ended := make(chan reply, 1)
	go func() {
		r, _ := faces["grpc"](f, context.WithoutCancel(t.Context()), call{method: methods["watch_fleet"], args: map[string]any{"follow": true}, caller: coderAlice})
		ended <- r
	}()
	waittest.Until(t, "a waiting stream gives no signal", func() bool { return f.guard.openCalls.Load() == 1 })
	before := d.Requests.Load()
	requestReceived, cancel := d.RequestReceived.Subscribe()
	defer cancel()
	d.Change(func() { d.Status = http.StatusBadGateway })
	d.Advance(30 * time.Second)
	waittest.UntilSignalled(t, requestReceived, func() bool { return d.Requests.Load() > before })
	require.Empty(t, ended)
	d.Change(func() { d.Status = 0; delete(d.Users, coderAlice) })
	d.Advance(30 * time.Second)
	r := <-ended
	require.NotNil(t, r.err)
	require.Equal(t, "UNAUTHENTICATED", r.err.Reason)
}

// TestCoderRightsLost checks that a Coder user's stream ends when the user is no longer an admin, or no longer in a group.
// Otherwise the stream would continue to show objects that the user may no longer see.
func TestCoderRightsLost(t *testing.T) {
	t.Parallel()
	for name, removeRight := range map[string]func(d *codertest.Deployment){
		"the role": func(d *codertest.Deployment) {
			u := d.Users[coderRoot]
			u.Roles = nil
			d.Users[coderRoot] = u
		},
		"a group": func(d *codertest.Deployment) { d.Groups = []codersdk.Group{} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, d := newCoderFleet(t, fleetConfig{})
			d.Change(func() { d.Groups = []codersdk.Group{{OrganizationName: "main", Name: "dev"}} })
			root, client := f.authContext(t.Context(), coderRoot), fleetv1.NewFleetServiceClient(f.conn)
			_, err := client.CreateAgent(root, &fleetv1.CreateAgentRequest{Name: "papi", Project: "Setup", Spec: "s"})
			require.NoError(t, err)
			stream, err := client.WatchFleet(root, &fleetv1.WatchFleetRequest{Follow: true})
			require.NoError(t, err)
			_, err = stream.Recv() // the stream has begun
			require.NoError(t, err)
			d.Change(func() { removeRight(d) })
			d.Advance(30 * time.Second)
			for err == nil {
				_, err = stream.Recv()
			}
			require.Equal(t, codes.PermissionDenied, status.Code(err), "%v", err)
		})
	}
}

// TestCoderNames checks that a renamed Coder user stays the same principal, and that the next user with the old name is
// another principal.
func TestCoderNames(t *testing.T) {
	t.Parallel()
	f, d := newCoderFleet(t, fleetConfig{})
	nameOf := func(token string) string {
		p, err := f.coderUsers.Authenticate(t.Context(), token)
		require.NoError(t, err)
		return p.Name
	}
	require.Equal(t, "coder:alice", nameOf(coderAlice))
	const mallory = "mallory000-mallorymallorymallory0"
	d.Change(func() {
		u := d.Users[coderAlice]
		u.Username = "alice2"
		d.Users[coderAlice] = u
	})
	d.Add("ALICE", mallory)
	d.Advance(30 * time.Second)
	require.Equal(t, "coder:alice", nameOf(coderAlice))
	require.Equal(t, "coder:alice~2", nameOf(mallory))
	id, err := f.service.SubjectOf(t.Context(), "coder", "coder:alice")
	require.NoError(t, err)
	require.Equal(t, d.Users[coderAlice].ID.String(), id)
}

// TestCoderTokenIsNotKept checks that neither the log nor any file of the server has a session token.
func TestCoderTokenIsNotKept(t *testing.T) {
	t.Parallel()
	log := &lockedBuffer{}
	f, _ := newCoderFleet(t, fleetConfig{Options: func(o *Options) { o.Log = log }})
	for _, face := range []string{"grpc", "rest", "mcp"} {
		for _, token := range []string{coderAlice, "aliceALICE-alicealicealicealice00"} {
			f.call(t, face, "list_agents", token, nil)
		}
	}
	const secret = "alicealicealicealice00"
	require.NotContains(t, log.String(), secret)
	require.NoError(t, filepath.WalkDir(f.cfg.Data, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path) //nolint:gosec // a file of the test
		require.NotContains(t, string(b), secret, path)
		return err
	}))
}
