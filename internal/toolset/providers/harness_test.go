package providers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os/exec"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/place/local"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
	"fleet/internal/state"
	"fleet/internal/toolset/providers"
	"fleet/internal/waittest"
)

// These are the keys in the tests' environment. No answer, error or log may contain one of them.
const (
	claudeKey = "sk-ant-api03-Kq8vZr1TtYw2"
	customKey = "9f3c17d2aa64b0e5"
	toolToken = "weather-token-77123"
)

// drivers are the drivers of the places that every server has.
var drivers = append(local.Drivers(), local.ModelDrivers()...)

// harness is the toolset over a real core and store, with fake places for models and for programs.
type harness struct {
	*providers.Service
	t      *testing.T
	core   *service.Service
	flaky  *servicetest.FlakyStore // the store of core
	models *fake.Place             // runs models
	probes *fakeProbes
	config providers.Config
	log    *lockedBuffer

	mu           sync.Mutex
	agentConfigs []*fleet.AgentConfig // the configurations of the created agents, oldest first
	env          map[string]string    // the environment of the server
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// newHarness starts a fleet with the providers of the built-in table, an API "custom" and a program "mycli". change, which
// may be nil, changes the configuration.
func newHarness(t *testing.T, change func(*providers.Config)) *harness {
	t.Helper()
	h := &harness{t: t, probes: &fakeProbes{}, log: &lockedBuffer{}, env: map[string]string{
		"ANTHROPIC_API_KEY": claudeKey, "CUSTOM_KEY": customKey, "WEATHER_TOKEN": toolToken,
	}}
	recordConfig := func(_ context.Context, c fake.Call) error {
		if c.Method == fake.Provision {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.agentConfigs = append(h.agentConfigs, c.Agent.Config)
		}
		return nil
	}
	h.models = fake.New(fake.Config{Traits: fleet.Traits{Name: "cagent", Drivers: local.ModelDrivers()}, Before: recordConfig})
	logger := slog.New(slog.NewTextHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	t.Cleanup(func() {
		h.models.Destroy()
		for _, key := range []string{claudeKey, customKey, toolToken} {
			require.NotContains(t, h.log.String(), key, "the log must not contain a key")
		}
	})
	programs := fake.Config{Traits: fleet.Traits{Name: "local", Drivers: local.Drivers()}, Before: recordConfig}
	h.core = servicetest.NewOver(t, programs, func(c *state.Config) {
		c.Logger, c.OtherPlaces = logger, []fleet.Place{h.models}
	}, func(s fleet.Store) fleet.Store {
		h.flaky = &servicetest.FlakyStore{Store: s}
		return h.flaky
	}).Service
	c := providers.Config{Settings: providers.Settings{Agents: []providers.Provider{
		{Name: "custom", Kind: providers.KindAPI, BaseURL: "https://llm.example.com/v1/", KeyVariables: []string{"CUSTOM_OTHER", "CUSTOM_KEY"}, Model: "custom-1"},
		{Name: "mycli", Kind: providers.KindCLI, Command: []string{"mycli", "--model", "{{.Model}}"}, KeyVariables: []string{"CUSTOM_KEY"}},
	}}, Drivers: drivers, StopGrace: waittest.Limit, Getenv: h.getenv, Logger: logger}
	if change != nil {
		change(&c)
	}
	h.config = c
	h.Service = h.newService()
	return h
}

// newService returns another service over the same core, as if it belonged to another server on the same store.
func (h *harness) newService() *providers.Service {
	s, err := providers.New(h.core, h.probes, h.config)
	require.NoError(h.t, err)
	return s
}

func (h *harness) getenv(name string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.env[name]
}

func (h *harness) setenv(name, value string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.env[name] = value
}

// agentConfig returns the configuration of the agent that was created last.
func (h *harness) agentConfig() *fleet.AgentConfig {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	require.NotEmpty(h.t, h.agentConfigs)
	return h.agentConfigs[len(h.agentConfigs)-1]
}

// as returns a context for calls of the principal. Only root is an admin.
func (h *harness) as(name string) context.Context {
	p := fleet.Principal{Name: name, Kind: fleet.KindController, Scope: fleet.ScopeRun}
	if name == "root" {
		p.Scope = fleet.ScopeAdmin
	}
	return fleet.WithPrincipal(h.t.Context(), p)
}

// execute runs a request of alice and requires a Result, which may have an Error.
func (h *harness) execute(r providers.ExecuteRequest) *providers.Result {
	h.t.Helper()
	a, err := h.Execute(h.as("alice"), r)
	require.NoError(h.t, err)
	h.requireNoKeys(a)
	return a
}

// executeInBackground starts a request, and returns a channel that receives its error.
func executeInBackground(ctx context.Context, s *providers.Service, r providers.ExecuteRequest) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := s.Execute(ctx, r)
		done <- err
	}()
	return done
}

// requireNoKeys checks that a value for a caller contains no key and no beginning of a key.
func (h *harness) requireNoKeys(answer any) {
	h.t.Helper()
	b, err := json.Marshal(answer)
	require.NoError(h.t, err)
	for _, key := range []string{claudeKey, customKey, toolToken, claudeKey[:10], customKey[:8]} {
		require.NotContains(h.t, string(b), key, "an answer must not contain a key or the beginning of a key")
	}
}

// requireReason requires that err has the reason and the field, and returns it.
func (h *harness) requireReason(err error, reason fleet.Reason, field string) *fleet.Error {
	h.t.Helper()
	var e *fleet.Error
	require.ErrorAs(h.t, err, &e)
	require.Equal(h.t, reason, e.Reason, "%s", e.Message)
	require.Equal(h.t, field, e.Field, "%s", e.Message)
	h.requireNoKeys(e.Message)
	return e
}

// fakeProbes answers probes with its functions. Without a function, each URL exists and no program does.
type fakeProbes struct {
	get     func(ctx context.Context, url string, header map[string]string) (int, []byte, error)
	version func(ctx context.Context, program string) (string, string, error)
}

func (f *fakeProbes) Get(ctx context.Context, url string, header map[string]string) (int, []byte, error) {
	if f.get == nil {
		return 200, []byte(`{"data":[]}`), nil
	}
	return f.get(ctx, url, header)
}

func (f *fakeProbes) Version(ctx context.Context, program string) (string, string, error) {
	if f.version == nil {
		return "", "", exec.ErrNotFound
	}
	return f.version(ctx, program)
}
