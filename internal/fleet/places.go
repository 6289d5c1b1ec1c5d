package fleet

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// managedPlace is a place with the core's state about it.
type managedPlace struct {
	Place
	name   string
	traits Traits
	// fleet means that the fleet's agents live in it: its projects and all its workspaces are the fleet's.
	fleet   bool
	catalog *catalog
	every   time.Duration // how often its workspaces are listed while nothing changes
	grace   time.Duration // how long an interrupted run may take to end

	store Store
	log   *slog.Logger
	now   func() time.Time
	begun time.Time // when the service was created

	// observed is when its workspaces were last listed completely, in Unix milliseconds; 0 if never.
	observed atomic.Int64
	// unlisted is the error of the last listing; nil if it succeeded.
	unlisted atomic.Pointer[outage]
	// down is the error of the last call that it did not answer; nil if it answered.
	down atomic.Pointer[outage]
	// hidden counts its workspaces that cannot be shown because agents of other places have their names.
	hidden atomic.Int64
	// firstPoll is closed after the first listing, successful or not.
	firstPoll chan struct{}
	polled    sync.Once // closes firstPoll
}

// addPlace adds the place to the service, unless it is there already.
func (s *Service) addPlace(p Place, ofFleet bool) {
	t := p.Traits()
	if s.byPlace[t.Name] != nil {
		return
	}
	m := &managedPlace{
		Place: p, name: t.Name, traits: t, fleet: ofFleet, catalog: newCatalog(p, s.cfg.Now),
		every: cmp.Or(s.cfg.PollInterval, t.PollInterval, 5*time.Second), grace: cmp.Or(s.cfg.StopGrace, t.StopGrace, 5*time.Second),
		store: s.store, log: s.log, now: s.now, begun: s.begun, firstPoll: make(chan struct{}),
	}
	s.byPlace[t.Name] = m
	s.all = append(s.all, m)
	if ofFleet {
		s.places = append(s.places, m)
	}
}

// adopts reports whether listed workspaces that the store does not know are agents to be adopted.
func (p *managedPlace) adopts() bool { return p.fleet && p.traits.Adopts }

// placeOf returns the place of the agent. If the place is no longer configured, it returns one that does not answer, so
// that nothing of the agent is lost until the place is configured again.
func (s *Service) placeOf(a *Agent) *managedPlace {
	if p := s.place(a.Place); p != nil {
		return p
	}
	return s.absentPlace(a.Place)
}

// place returns the place with the name; nil if it is not configured. Agents from before places had names in the store
// belong to the first place.
func (s *Service) place(name string) *managedPlace {
	if name == "" {
		return s.places[0]
	}
	return s.byPlace[name]
}

// PlaceNames returns the names of all places, sorted.
func (s *Service) PlaceNames() []string { return slices.Sorted(maps.Keys(s.byPlace)) }

// TraitsOf returns the facts about the place with the name, "" meaning the fleet's first one; ok is false if there is
// none.
func (s *Service) TraitsOf(name string) (t Traits, ok bool) {
	p := s.place(name)
	if p == nil {
		return Traits{}, false
	}
	return p.traits, true
}

// PlaceWith returns the facts about the first place that has the driver, preferring places of the fleet; ok is false if
// none has it.
func (s *Service) PlaceWith(driver string) (t Traits, ok bool) {
	for _, p := range s.all {
		if _, ok := p.traits.Driver(driver); ok {
			return p.traits, true
		}
	}
	return Traits{}, false
}

// PlaceState is the state of a place.
type PlaceState struct {
	Name string
	// ObservedAt is when its workspaces were last listed completely; zero before the first time.
	ObservedAt time.Time
	// Problem says why what is known of its agents may be wrong or incomplete; empty if it is neither.
	Problem string
	// Stale says why ObservedAt is more than three polls ago; empty if it is not.
	Stale string
}

// state returns the state of the place.
func (p *managedPlace) state() PlaceState {
	st := PlaceState{Name: p.name, ObservedAt: p.observedAt(), Stale: p.stale()}
	switch o := p.unlisted.Load(); {
	case o != nil:
		st.Problem = o.err.Message
	case p.adopts() && st.ObservedAt.IsZero():
		st.Problem = "it has not listed all its agents yet"
	case st.Stale != "":
		st.Problem = st.Stale
	default:
		st.Problem = p.concealed()
	}
	return st
}

// Places returns the state of the places of the fleet, in the order of the configuration, followed by places of p's
// agents that are not configured.
func (s *Service) Places(p Principal) []PlaceState {
	all := make([]PlaceState, 0, len(s.places))
	for _, place := range s.places {
		all = append(all, place.state())
	}
	for _, name := range s.snap.listing().placesOf(p) {
		if s.place(name) == nil {
			all = append(all, s.absentPlace(name).state())
		}
	}
	return all
}

// PlaceOf returns the state of the agent's place.
func (s *Service) PlaceOf(v *AgentView) PlaceState { return s.placeOf(&v.Agent).state() }

// absentPlace returns a place that the store names and the configuration does not.
func (s *Service) absentPlace(name string) *managedPlace {
	p := absent{name: name}
	m := &managedPlace{Place: p, name: name, traits: p.Traits(), every: 5 * time.Second, grace: cmp.Or(s.cfg.StopGrace, 5*time.Second), now: s.now, log: s.log}
	o := &outage{err: p.err(), at: s.now(), since: s.begun}
	m.down.Store(o)
	m.unlisted.Store(o)
	return m
}

// absent is a place that the store names and the configuration does not.
type absent struct{ name string }

func (b absent) err() *Error {
	return Errorf(ReasonBackendUnavailable, "the place %q is not configured: start the server with it again", b.name)
}

func (b absent) Traits() Traits                              { return Traits{Name: b.name} }
func (b absent) Projects(context.Context) ([]Project, error) { return nil, b.err() }
func (b absent) Roles(context.Context, string) ([]Role, error) {
	return nil, b.err()
}

func (b absent) Provision(context.Context, Agent) (Workspace, error) {
	return Workspace{}, b.err()
}
func (b absent) Start(context.Context, Agent) error            { return b.err() }
func (b absent) Stop(context.Context, Agent) error             { return b.err() }
func (b absent) Delete(context.Context, Agent) (string, error) { return "", b.err() }
func (b absent) Inspect(context.Context, Agent) (Workspace, error) {
	return Workspace{}, b.err()
}
func (b absent) List(context.Context) ([]Workspace, error)               { return nil, b.err() }
func (b absent) Connect(Agent) Runner                                    { return absentRunner{b} }
func (b absent) Log(context.Context, Agent, int) ([]string, bool, error) { return nil, false, b.err() }
func (b absent) Close() error                                            { return nil }

// absentRunner is the runner of an agent in an absent place.
type absentRunner struct{ place absent }

func (r absentRunner) Dispatch(context.Context, Run) error { return r.place.err() }
func (r absentRunner) Follow(context.Context, Run, string, func(Output) error) (Outcome, error) {
	return Outcome{}, r.place.err()
}
func (r absentRunner) Changes(context.Context, Run) (*Changes, error) { return nil, r.place.err() }
func (r absentRunner) Patch(context.Context, Changes, string, int64, int) ([]byte, bool, error) {
	return nil, false, r.place.err()
}

func (r absentRunner) Output(context.Context, Run, int64, int) (OutputPage, error) {
	return OutputPage{}, r.place.err()
}
func (r absentRunner) Interrupt(context.Context, Run, bool) error      { return r.place.err() }
func (r absentRunner) Send(context.Context, Run, string, string) error { return r.place.err() }
func (r absentRunner) Answer(context.Context, Run, Question) error     { return r.place.err() }
func (r absentRunner) Check(context.Context, Run, Check) (CheckResult, error) {
	return CheckResult{}, r.place.err()
}
func (r absentRunner) Bundle(context.Context, io.Writer) error { return r.place.err() }
