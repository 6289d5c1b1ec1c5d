package coder_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/coder"
	"fleet/internal/place/placetest"
	"fleet/internal/waittest"
)

// hidingPlace is a place from which test cases can hide workspaces of Coder, and whose token they can change.
type hidingPlace struct {
	*coder.Place
	asAdmin atomic.Bool // whether requests have the token of the admin, who sees all workspaces
	mu      sync.Mutex
	hidden  map[string]bool // ids of workspaces that Coder does not show
}

// token returns a function that returns the admin's token if asAdmin is set, else the result of userToken.
func (h *hidingPlace) token(userToken func(context.Context) (string, error)) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		if h.asAdmin.Load() {
			return os.Getenv("TESTBED_ADMIN_TOKEN"), nil
		}
		return userToken(ctx)
	}
}

// hideTransport returns a transport that answers 404 for hidden workspaces, as Coder does for a user who may not see them.
func (h *hidingPlace) hideTransport(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		for id := range h.hidden {
			if strings.HasPrefix(r.URL.Path, "/api/v2/workspaces/"+id) {
				r = r.Clone(r.Context())
				r.URL.Path = "/api/v2/workspaces/" + uuid.NewString()
			}
		}
		res, err := next.RoundTrip(r)
		if err != nil || r.URL.Path != "/api/v2/workspaces" || len(h.hidden) == 0 || res.StatusCode != http.StatusOK {
			return res, err
		}
		defer func() { _ = res.Body.Close() }()
		var list struct {
			Workspaces []map[string]any `json:"workspaces"`
			Count      int              `json:"count"`
		}
		if err := json.NewDecoder(res.Body).Decode(&list); err != nil {
			return nil, err
		}
		list.Workspaces = slices.DeleteFunc(list.Workspaces, func(ws map[string]any) bool { return h.hidden[ws["id"].(string)] })
		b, err := json.Marshal(list)
		res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(b)), int64(len(b))
		res.Header.Del("Content-Length")
		return res, err
	})
}

// hide hides the agent's workspace, and returns a function that shows it again.
func hide(_ *testing.T, p fleet.Place, a fleet.Agent) func() {
	h := hidingPlaceOf(p)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hidden[a.WorkspaceID] = true
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.hidden, a.WorkspaceID)
	}
}

// changeCaller makes the place send requests with the admin's token, until the returned function is called.
func changeCaller(_ *testing.T, p fleet.Place) func() {
	h := hidingPlaceOf(p)
	h.asAdmin.Store(true)
	return func() { h.asAdmin.Store(false) }
}

// giveAway restarts the agent's workspace with the key of another Fleet.
func giveAway(t *testing.T, p fleet.Place, a fleet.Agent) {
	_, key, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	other, err := coder.New(coder.Config{
		URL: os.Getenv("CODER_URL"), Token: coder.FindToken(os.Getenv, "", ""), Settings: coder.Settings{Prefix: new("e2e-")}, RunnerKey: key,
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, other.Close()) }()
	await := func(p fleet.Place, s fleet.State) {
		waittest.Until(t, "Coder has no signal for the state of a workspace", func() bool {
			w, err := p.Inspect(t.Context(), a)
			return err == nil && w.State == s
		})
	}
	require.NoError(t, other.Stop(t.Context(), a))
	await(other, fleet.StateStopped)
	require.NoError(t, other.Start(t.Context(), a))
	await(other, fleet.StateRunning)
}

func hidingPlaceOf(p fleet.Place) *hidingPlace {
	if s, ok := p.(screenPlace); ok {
		p = s.Place
	}
	return p.(*hidingPlace)
}

// screenPlace is a place whose workspaces have only AgentAPI.
type screenPlace struct{ fleet.Place }

func (s screenPlace) Traits() fleet.Traits {
	t := s.Place.Traits()
	t.Asks, t.SupportsChanges, t.SupportsOutput, t.SupportsChecks, t.SupportsBundles = false, false, false, false, false
	return t
}

// TestSuite runs the suite against the Coder deployment at CODER_URL, as the user of CODER_SESSION_TOKEN. It creates and
// deletes workspaces with the prefix e2e-. Their template is setup-devcontainer, which has AgentAPI.
func TestSuite(t *testing.T) {
	openReal := placeOpener(t, func(*testing.T, *coder.Config) {})
	open := func(t *testing.T) fleet.Place { return screenPlace{openReal(t)} }
	placetest.Run(t, placetest.Harness{
		New:    open,
		Reopen: func(t *testing.T, _ fleet.Place) fleet.Place { return open(t) },
		Hide:   hide, ChangeCaller: changeCaller,
		Project: "Setup", Role: "operator", SelfStarting: "Prompt first",
		Prompts: placetest.Prompts{
			Says: placetest.Prompt{
				Text: "echo first of all\nsecond to none", Lines: []string{"first of all", "second to none"},
				Summary: "first of all\nsecond to none",
			},
			Works:   placetest.Prompt{Text: "sleep 3600", Lines: []string{"working"}},
			Fails:   placetest.Prompt{Text: "fail to compile", Reason: "failed: fail to compile"},
			Listens: placetest.Prompt{Text: "sleep 5", Lines: []string{"working"}},
		},
		TimeLimit: 4 * time.Second,
	})
}

// TestSuiteRunner runs the suite with the template runner, whose workspaces have a fleet-runner.
func TestSuiteRunner(t *testing.T) {
	origin := filepath.Join(t.TempDir(), "shop.git")
	require.NoError(t, os.Chmod(filepath.Dir(origin), 0o755)) //nolint:gosec // workspaces can have other users
	out, err := exec.CommandContext(t.Context(), "sh", "-ec", "git init -q --bare -b main $0; cd $1; git init -q -b main; git -c user.name=a -c user.email=a@example.com commit -q --allow-empty -m one; git push -q $0 main",
		origin, t.TempDir()).CombinedOutput()
	require.NoError(t, err, "%s", out)
	open := placeOpener(t, func(t *testing.T, c *coder.Config) {
		c.Projects = map[string]coder.Project{"Runner": {Template: "runner", Settings: coder.Settings{Repository: origin}}}
		if strings.HasSuffix(t.Name(), "work_comes_together") { // other cases delete workspaces, and one of these workspaces could be the host for landing
			c.Prefix = new("e2e-land-")
		}
	})
	landing := placetest.ShellLanding("Runner")
	landing.Prepare = "git remote set-url origin " + origin + "; git fetch -q; git checkout -q -B main origin/main"
	placetest.Run(t, placetest.Harness{
		New:    open,
		Reopen: func(t *testing.T, _ fleet.Place) fleet.Place { return open(t) },
		Hide:   hide, ChangeCaller: changeCaller,
		GiveAway: giveAway,
		Project:  "Runner", Role: "operator",
		Landing: landing, Checks: placetest.ShellChecks(), Prompts: placetest.ShellPrompts(),
		TimeLimit: 2 * time.Second,
	})
}

// placeOpener returns a function that opens places on a real Coder deployment. All places have the same key for runners.
// placeOpener skips the test if FLEET_E2E is not set.
func placeOpener(t *testing.T, change func(*testing.T, *coder.Config)) func(t *testing.T) fleet.Place {
	if os.Getenv("FLEET_E2E") == "" {
		t.Skip("set FLEET_E2E=1, CODER_URL and CODER_SESSION_TOKEN to run against a real Coder deployment")
	}
	_, key, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	var store userIDStore
	return func(t *testing.T) fleet.Place {
		level := slog.LevelWarn
		if testing.Verbose() {
			level = slog.LevelDebug
		}
		h := &hidingPlace{hidden: map[string]bool{}}
		c := coder.Config{
			URL: os.Getenv("CODER_URL"), Token: h.token(coder.FindToken(os.Getenv, "", "")), RememberUser: store.remember, WrapTransport: h.hideTransport,
			Settings: coder.Settings{Prefix: new("e2e-")}, RunnerKey: key,
			Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: level})),
		}
		change(t, &c)
		p, err := coder.New(c)
		require.NoError(t, err)
		h.Place = p
		return h
	}
}
