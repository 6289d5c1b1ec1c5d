package sessions_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	"fleet/internal/reconcile"
	"fleet/internal/runner/sandbox"
	"fleet/internal/service"
	"fleet/internal/state"
	"fleet/internal/store/sqlite/sqlitetest"
	"fleet/internal/toolset/sessions"
	"fleet/internal/waittest"
)

// harness is a sessions service over a real store. Agents from definitions use a stub model, and agents of the fleet are
// in a fake place.
type harness struct {
	t             testing.TB
	dir           string
	model         *model.Server
	cfg           sessions.Config
	changeCatalog func(*definition.CatalogConfig)
	fake          *fake.Place
	store         fleet.Store
	core          *service.Service
	svc           *sessions.Service
	catalog       *definition.Catalog
	close         func()

	mu  sync.Mutex
	now time.Time
}

func newHarness(t testing.TB, with func(*harness)) *harness {
	t.Helper()
	w := &harness{t: t, dir: t.TempDir(), model: model.New(t), fake: fake.New(fake.Config{}), now: time.Now().UTC()}
	w.cfg.Now = w.clock
	w.cfg.SweepEvery = time.Hour // tests call Sweep themselves
	if with != nil {
		with(w)
	}
	w.define("echo.yaml", w.document("Says what it is told."))
	w.open()
	t.Cleanup(func() {
		w.close()
		w.fake.Destroy()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	return w
}

func (w *harness) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// advance advances the clock.
func (w *harness) advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// document returns a definition of an agent that uses the stub model.
func (w *harness) document(description string) string {
	return fmt.Sprintf(`
models:
  stub: {provider: anthropic, model: stub-large, base_url: %q}
agents:
  root:
    model: stub
    description: %s
    instruction: You do as you are told.
    toolsets: [{type: think}]
`, w.model.URL, description)
}

// define writes a file into the agents directory.
func (w *harness) define(name, document string) {
	w.t.Helper()
	p := filepath.Join(w.dir, "agents", name)
	require.NoError(w.t, os.MkdirAll(filepath.Dir(p), 0o700))
	require.NoError(w.t, os.WriteFile(p, []byte(document), 0o600))
}

// open starts the fleet.
func (w *harness) open() {
	w.t.Helper()
	store, err := sqlitetest.Open(context.Background(), filepath.Join(w.dir, "fleet.db"))
	require.NoError(w.t, err)
	c := definition.CatalogConfig{AgentsDir: filepath.Join(w.dir, "agents"), StoreDir: filepath.Join(w.dir, "store")}
	host, _, _ := strings.Cut(strings.TrimPrefix(w.model.URL, "http://"), "/")
	c.Policy.ModelHosts = []string{host}
	if w.changeCatalog != nil {
		w.changeCatalog(&c)
	}
	w.catalog = definition.NewCatalog(c)
	exe, err := os.Executable()
	require.NoError(w.t, err)
	supervisor, err := sandbox.Executable()
	require.NoError(w.t, err)
	here, err := local.New(local.Config{
		Dir: filepath.Join(w.dir, "local"), Program: supervisor, Environ: []string{"ANTHROPIC_API_KEY=sk-stub-0123456789"},
		Models: local.Models{Command: []string{exe, "model-run"}, Catalog: w.catalog, Needs: definition.Needs},
	})
	require.NoError(w.t, err)
	models := here.Models()
	log := slog.New(slog.NewTextHandler(w.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	w.store = store
	st := state.New(store, []fleet.Place{w.fake}, state.Config{
		CreateWait: waittest.Limit, StopGrace: 50 * time.Millisecond, PollInterval: 100 * time.Millisecond, Logger: log,
		OtherPlaces: []fleet.Place{models},
	})
	w.core = service.New(st)
	rec := reconcile.New(st, nil)
	rec.Start()
	w.svc = sessions.New(w.core, w.catalog, w.cfg)
	w.close = func() {
		rec.Stop()
		require.NoError(w.t, models.Close())
		require.NoError(w.t, store.Close())
	}
}

// restart stops the fleet and starts it again on the same data, as a new process would.
func (w *harness) restart() {
	w.t.Helper()
	w.close()
	w.open()
}

// as returns a context for calls of the principal.
func (w *harness) as(name string) context.Context {
	return fleet.WithPrincipal(w.t.Context(), fleet.Principal{Name: name, Kind: fleet.KindController})
}

// openSession opens a session.
func (w *harness) openSession(name, agent string) string {
	w.t.Helper()
	x, err := w.svc.Create(w.as(name), agent, "", "", sessions.Place{})
	require.NoError(w.t, err)
	return x.ID
}

// say sends a message and requires an answer.
func (w *harness) say(name, id, message string) *sessions.Answer {
	w.t.Helper()
	a, err := w.svc.Send(w.as(name), id, message, "", nil)
	require.NoError(w.t, err)
	return a
}

// sendLater sends a message in the background, and returns a channel for the error.
func (w *harness) sendLater(ctx context.Context, id, message, requestID string) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := w.svc.Send(ctx, id, message, requestID, nil)
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

// events returns the texts of the principal's events.
func (w *harness) events(name string) (texts []string) {
	w.t.Helper()
	require.NoError(w.t, w.store.View(w.t.Context(), func(tx fleet.ReadTx) error {
		all, err := tx.Events(fleet.EventFilter{Owner: name}, fleet.EventWindow{Limit: 100000})
		for _, e := range all {
			texts = append(texts, e.Text)
		}
		return err
	}))
	return texts
}

// until waits until the condition holds, checking it after each commit of the store.
func (w *harness) until(ok func() bool) {
	w.t.Helper()
	signal, cancel := w.store.Subscribe()
	defer cancel()
	waittest.UntilSignalled(w.t, signal, ok)
}

// waitForMessages polls until n messages of the session wait for their turns.
func (w *harness) waitForMessages(id string, n int) {
	w.t.Helper()
	waittest.Until(w.t, "a message that waits for its turn gives no signal", func() bool { return w.svc.Waiting(id) == n })
}

// agents returns the number of session agents.
func (w *harness) agents() (n int) {
	w.t.Helper()
	require.NoError(w.t, w.store.View(w.t.Context(), func(tx fleet.ReadTx) error {
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
