package servicetest

import (
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/reconcile"
	"fleet/internal/service"
	"fleet/internal/state"
	"fleet/internal/store/sqlite/sqlitetest"
	"fleet/internal/waittest"
)

// Harness is a running fleet. Its own methods fail the test if something goes wrong, unless they return an error. The methods of
// Service return their errors.
type Harness struct {
	*service.Service

	T          testing.TB
	FakePlace  *fake.Place   // the first place of the fleet
	MorePlaces []fleet.Place // the places of the fleet after it
	Store      fleet.Store
	Path       string       // the path of the store's file
	Config     state.Config // used by the next Restart or Replica
	State      *state.Fleet
	Reconciler *reconcile.Reconciler
}

// New starts a fleet whose places are the one that place describes and those in more. If with is not nil, it is called to
// change the configuration. The fleet stops when the test ends.
func New(t testing.TB, place fake.Config, with func(*state.Config), more ...fleet.Place) *Harness {
	t.Helper()
	return NewOver(t, place, with, func(s fleet.Store) fleet.Store { return s }, more...)
}

// NewWithPapi works like New, and creates the agent papi.
func NewWithPapi(t testing.TB, place fake.Config, with func(*state.Config)) *Harness {
	t.Helper()
	h := New(t, place, with)
	h.Create("papi")
	return h
}

// NewOver works like New, but the fleet uses the store that wrap returns.
func NewOver(t testing.TB, place fake.Config, with func(*state.Config), wrap func(fleet.Store) fleet.Store, more ...fleet.Place) *Harness {
	t.Helper()
	return newIn(t, fake.New(place), with, wrap, more...)
}

// NewIn starts another fleet that has the place of a running fleet, and a store of its own.
func NewIn(t testing.TB, place *fake.Place, with func(*state.Config)) *Harness {
	t.Helper()
	return newIn(t, place, with, func(s fleet.Store) fleet.Store { return s })
}

func newIn(t testing.TB, place *fake.Place, with func(*state.Config), wrap func(fleet.Store) fleet.Store, more ...fleet.Place) *Harness {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fleet.db")
	store, err := sqlitetest.Open(t.Context(), path)
	require.NoError(t, err)
	// Leases outlive any pause of a slow machine. A test whose leases must expire sets LeaseTTL.
	h := &Harness{T: t, FakePlace: place, MorePlaces: more, Store: wrap(store), Path: path, Config: state.Config{
		CreateWait: waittest.Limit, MessageWait: waittest.Limit, StopGrace: 50 * time.Millisecond, PollInterval: 20 * time.Millisecond, LeaseTTL: waittest.Limit,
		FirstListingWait: waittest.Limit, ListingGap: waittest.Limit, StartLimit: waittest.Limit,
		Logger: slog.New(slog.NewTextHandler(logWriter{t}, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}}
	if with != nil {
		with(&h.Config)
	}
	t.Cleanup(func() {
		if h.Reconciler != nil {
			h.Reconciler.Stop()
		}
		h.FakePlace.Destroy()
		require.NoError(t, store.Close())
		require.Empty(t, h.FakePlace.Overlaps())
	})
	h.Restart()
	return h
}

func (h *Harness) places() []fleet.Place { return append([]fleet.Place{h.FakePlace}, h.MorePlaces...) }

// Restart replaces the service and the reconciler, as a restarted process does.
func (h *Harness) Restart() {
	if h.Reconciler != nil {
		h.Reconciler.Stop()
	}
	h.State = state.New(h.Store, h.places(), h.Config)
	h.Service = service.New(h.State)
	h.SetTaskReader(func(text json.RawMessage) (r service.QueueTaskRequest, err error) { return r, json.Unmarshal(text, &r) })
	h.Reconciler = reconcile.New(h.State, h.Service)
	h.Reconciler.Start()
}

// Replica starts a second service and reconciler over the same store and places, as another process does. Config.Fault does not
// apply to them.
func (h *Harness) Replica() *Harness {
	r := &Harness{T: h.T, FakePlace: h.FakePlace, MorePlaces: h.MorePlaces, Store: h.Store, Path: h.Path, Config: h.Config}
	r.Config.Fault = nil
	r.Restart()
	h.T.Cleanup(func() { r.Reconciler.Stop() }) // the one of the last Restart
	return r
}

// logWriter writes the log of the fleet into the log of the test. It drops lines that are written after the test has ended.
type logWriter struct{ t testing.TB }

func (w logWriter) Write(b []byte) (int, error) {
	if w.t.Context().Err() == nil {
		w.t.Logf("%s", b)
	}
	return len(b), nil
}

// As returns a context for calls by the person with the name. The scope is not set, because package admission checks it and
// Service does not.
func As(ctx context.Context, name string) context.Context {
	return fleet.WithPrincipal(ctx, fleet.Principal{Name: name, Kind: fleet.KindHuman})
}

// AsAdmin returns a context for calls by an admin.
func AsAdmin(ctx context.Context) context.Context {
	return fleet.WithPrincipal(ctx, fleet.Principal{Name: "root", Kind: fleet.KindController, Scope: fleet.ScopeAdmin})
}

// Context returns a context for calls by alice, who owns the agents that the harness creates.
func (h *Harness) Context() context.Context { return As(h.T.Context(), "alice") }
