package sessions_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/model/definition"
	"fleet/internal/place/fake"
	"fleet/internal/place/local"
	"fleet/internal/place/placetest/model"
	"fleet/internal/runner/sandbox"
	"fleet/internal/service/servicetest"
	"fleet/internal/toolset/sessions"
	"fleet/internal/waittest"
)

// harness is a sessions service over a fleet. Agents from definitions use a stub model, and agents of the fleet are in a fake place.
type harness struct {
	*servicetest.Harness
	t          testing.TB
	dir        string // directory of the files, except the store
	model      *model.Server
	fleetPlace fake.Config // configuration of the place with the agents of the fleet
	models     fleet.Place // runs agents from definitions
	cfg        sessions.Config
	svc        *sessions.Service
	catalog    *definition.Catalog

	mu  sync.Mutex
	now time.Time
}

// newHarness starts a fleet with the agent echo. change, which may be nil, changes the harness before the start.
func newHarness(t testing.TB, change func(*harness)) *harness {
	t.Helper()
	h := &harness{t: t, dir: t.TempDir(), model: model.New(t), now: time.Now().UTC()}
	h.cfg.Now = h.clock
	h.cfg.SweepEvery = time.Hour // tests call Sweep themselves
	if change != nil {
		change(h)
	}
	h.define("echo.yaml", h.document("Says what it is told."))
	t.Cleanup(func() {
		require.NoError(t, h.models.Close())
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	h.open()
	return h
}

func (h *harness) clock() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

// advance advances the clock.
func (h *harness) advance(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(d)
}

// document returns a definition of an agent that uses the stub model.
func (h *harness) document(description string) string {
	return fmt.Sprintf(`
models:
  stub: {provider: anthropic, model: stub-large, base_url: %q}
agents:
  root:
    model: stub
    description: %s
    instruction: You do as you are told.
    toolsets: [{type: think}]
`, h.model.URL, description)
}

// define writes a file into the agents directory.
func (h *harness) define(name, document string) {
	h.t.Helper()
	p := filepath.Join(h.dir, "agents", name)
	require.NoError(h.t, os.MkdirAll(filepath.Dir(p), 0o700))
	require.NoError(h.t, os.WriteFile(p, []byte(document), 0o600))
}

// open starts the fleet on the files in h.dir and on the store, if there is one.
func (h *harness) open() {
	h.t.Helper()
	c := definition.CatalogConfig{AgentsDir: filepath.Join(h.dir, "agents"), StoreDir: filepath.Join(h.dir, "store")}
	host, _, _ := strings.Cut(strings.TrimPrefix(h.model.URL, "http://"), "/")
	c.Policy.ModelHosts = []string{host}
	h.catalog = definition.NewCatalog(c)
	exe, err := os.Executable()
	require.NoError(h.t, err)
	supervisor, err := sandbox.Executable()
	require.NoError(h.t, err)
	localPlace, err := local.New(local.Config{
		Dir: filepath.Join(h.dir, "local"), Program: supervisor, Environ: []string{"ANTHROPIC_API_KEY=sk-stub-0123456789"},
		Models: local.ModelsConfig{Command: []string{exe, "model-run"}, Catalog: h.catalog, Needs: definition.Needs},
	})
	require.NoError(h.t, err)
	h.models = localPlace.ModelPlace()
	if h.Harness == nil {
		h.Harness = servicetest.New(h.t, h.fleetPlace, servicetest.WithToolsetPlace(h.models))
	} else {
		h.Config.OtherPlaces = []fleet.Place{h.models}
		h.Restart()
	}
	h.svc = sessions.New(h.Service, h.catalog, h.cfg)
}

// restart stops the fleet and starts it again on the same data, as a new process would.
func (h *harness) restart() {
	h.t.Helper()
	h.Reconciler.Stop()
	require.NoError(h.t, h.models.Close())
	h.open()
}

// as returns a context for calls of the principal.
func (h *harness) as(principal string) context.Context {
	return fleet.WithPrincipal(h.t.Context(), fleet.Principal{Name: principal, Kind: fleet.KindController})
}

// openSession opens a session of the principal and returns its id.
func (h *harness) openSession(principal, agent string) string {
	h.t.Helper()
	x, err := h.svc.Create(h.as(principal), agent, "", "", sessions.Location{})
	require.NoError(h.t, err)
	return x.ID
}

// say sends a message of the principal and requires an answer.
func (h *harness) say(principal, id, message string) *sessions.Answer {
	h.t.Helper()
	a, err := h.svc.Send(h.as(principal), id, message, "", nil)
	require.NoError(h.t, err)
	return a
}

// sendInBackground sends a message in the background, and returns a channel that receives its error.
func (h *harness) sendInBackground(ctx context.Context, id, message, requestID string) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := h.svc.Send(ctx, id, message, requestID, nil)
		done <- err
	}()
	return done
}

// requireReason requires that err has the reason and that its text contains all words. It returns the error.
func requireReason(t testing.TB, err error, reason fleet.Reason, words ...string) *fleet.Error {
	t.Helper()
	e, ok := errors.AsType[*fleet.Error](err)
	require.True(t, ok, "%T: %v", err, err)
	require.Equal(t, reason, e.Reason, "%v", err)
	for _, word := range words {
		require.Contains(t, e.Message, word)
	}
	return e
}

// waitForMessages polls until n messages of the session wait for their turns.
func (h *harness) waitForMessages(id string, n int) {
	h.t.Helper()
	waittest.Until(h.t, "a message that waits for its turn gives no signal", func() bool { return h.svc.Waiting(id) == n })
}

// countAgents returns the number of existing agents that were made for sessions or invocations.
func (h *harness) countAgents() (n int) {
	h.t.Helper()
	require.NoError(h.t, h.Store.View(h.t.Context(), func(tx fleet.ReadTx) error {
		n = 0
		all, err := tx.AgentViews(fleet.AgentViewFilter{Live: true})
		for _, v := range all {
			if v.Toolset == fleet.ToolsetSessions {
				n++
			}
		}
		return err
	}))
	return n
}
