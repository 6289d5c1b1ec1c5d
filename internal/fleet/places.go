package fleet

import (
	"cmp"
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
	// concealed counts its workspaces that cannot be shown because agents of other places have their names.
	concealed atomic.Int64
	// firstPoll is closed after the first listing, successful or not.
	firstPoll chan struct{}
	polled    sync.Once // closes firstPoll
}

// adopts reports whether listed workspaces that the store does not know are agents to be adopted.
func (p *managedPlace) adopts() bool { return p.fleet && p.traits.Adopts }

// Places are the places of the configuration.
type Places struct {
	fleet  []*managedPlace          // of the fleet, at least one
	all    []*managedPlace          // those and all others
	byName map[string]*managedPlace // all
	store  Store
	cfg    Config
	begun  time.Time              // when they were created
	unread atomic.Pointer[outage] // the error of the last read of the store; nil if it succeeded
}

func newPlaces(store Store, ofFleet []Place, cfg Config) *Places {
	ps := &Places{byName: map[string]*managedPlace{}, store: store, cfg: cfg, begun: cfg.Now()}
	for _, p := range ofFleet {
		ps.add(p, true)
	}
	for _, p := range cfg.Others {
		ps.add(p, false)
	}
	return ps
}

// add adds the place, unless it is there already.
func (ps *Places) add(p Place, ofFleet bool) {
	t := p.Traits()
	if ps.byName[t.Name] != nil {
		return
	}
	m := &managedPlace{
		Place: p, name: t.Name, traits: t, fleet: ofFleet, catalog: newCatalog(p, ps.cfg.Now),
		every: cmp.Or(ps.cfg.PollInterval, t.PollInterval, 5*time.Second), grace: cmp.Or(ps.cfg.StopGrace, t.StopGrace, 5*time.Second),
		store: ps.store, log: ps.cfg.Logger, now: ps.cfg.Time, begun: ps.begun, firstPoll: make(chan struct{}),
	}
	ps.byName[t.Name] = m
	ps.all = append(ps.all, m)
	if ofFleet {
		ps.fleet = append(ps.fleet, m)
	}
}

// of returns the place of the agent. If the place is no longer configured, it returns one that does not answer, so
// that nothing of the agent is lost until the place is configured again.
func (ps *Places) of(a *Agent) *managedPlace {
	if p := ps.lookup(a.Place); p != nil {
		return p
	}
	return ps.absent(a.Place)
}

// lookup returns the place with the name; nil if it is not configured. Agents from before places had names in the store
// belong to the first place.
func (ps *Places) lookup(name string) *managedPlace {
	if name == "" {
		return ps.fleet[0]
	}
	return ps.byName[name]
}

// names returns the names of all places, sorted.
func (ps *Places) names() []string { return slices.Sorted(maps.Keys(ps.byName)) }

// with returns the first place that has the driver, preferring places of the fleet; nil if none has it.
func (ps *Places) with(driver string) *managedPlace {
	for _, p := range ps.all {
		if _, ok := p.traits.Driver(driver); ok {
			return p
		}
	}
	return nil
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
		st.Problem = p.nameConflicts()
	}
	return st
}

// absent returns a place that the store names and the configuration does not.
func (ps *Places) absent(name string) *managedPlace {
	p := absentPlace{name: name}
	m := &managedPlace{Place: p, name: name, traits: p.Traits(), every: 5 * time.Second, grace: cmp.Or(ps.cfg.StopGrace, 5*time.Second), now: ps.cfg.Time, log: ps.cfg.Logger}
	o := &outage{err: p.err(), at: ps.cfg.Time(), since: ps.begun}
	m.down.Store(o)
	m.unlisted.Store(o)
	return m
}

// sameName returns the agent that prevents an agent of the place from having the name: one of the same owner in any
// place, or one of any owner in this place if it has a single namespace for all owners. It returns nil if there is
// none.
func (p *managedPlace) sameName(tx ReadTx, name, owner string) (*Agent, error) {
	agents, err := tx.AgentsByName(name, "")
	for _, a := range agents {
		if a.Owner == owner || p.traits.UniqueNames && a.Place == p.name {
			return a, err
		}
	}
	return nil, err
}
