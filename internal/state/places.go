package state

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/notify"
)

// ManagedPlace is a place with what this process knows about it.
type ManagedPlace struct {
	fleet.Place
	Name string
	// OfFleet means that agents of ToolsetFleet live in it: the fleet uses its projects and all its workspaces.
	OfFleet  bool
	Catalog  *catalog
	Interval time.Duration // how often its workspaces are listed while nothing changes
	Grace    time.Duration // how long an interrupted run may take to end

	places *Places // the places of this process; a stand-in for an absent place is not among them

	// listedAt is when its workspaces were last listed completely, in Unix milliseconds; 0 if never.
	listedAt atomic.Int64
	// listingFailure is the error of the last listing; nil if it succeeded.
	listingFailure atomic.Pointer[failure]
	// callFailure is the error of the last call if the place did not answer it; nil if it answered.
	callFailure atomic.Pointer[failure]
	// hiddenCount counts its workspaces that cannot be shown because agents of other places have their names.
	hiddenCount atomic.Int64
	// polled is true after the first listing, successful or not.
	polled atomic.Bool
}

// now returns the time with the precision of the store.
func (p *ManagedPlace) now() time.Time { return p.places.cfg.Time() }

// Credential returns the name of the credential of the project's agents; empty if this server does not know it.
func (p *ManagedPlace) Credential(project string) string {
	if c, ok := p.Place.(fleet.Credentialer); ok && project != "" {
		return c.Credential(project)
	}
	return ""
}

// MaxCost returns the configured maximum cost of a task of the project's role; 0 if there is none, or if this server does not know
// it.
func (p *ManagedPlace) MaxCost(project, role string) fleet.Micros {
	if c, ok := p.Place.(fleet.CostLimiter); ok && project != "" {
		return c.MaxCost(project, role)
	}
	return 0
}

// Grant returns the configured grant of agents with the project's role; nil if they may not delegate, or if this server does
// not know it.
func (p *ManagedPlace) Grant(project, role string) *fleet.Grant {
	if d, ok := p.Place.(fleet.Delegator); ok && project != "" {
		return d.Grant(project, role)
	}
	return nil
}

// Adopts reports whether listed workspaces that the store does not know are agents to be adopted.
func (p *ManagedPlace) Adopts() bool { return p.OfFleet && p.Traits().Adopts }

// Places are the places of the configuration.
type Places struct {
	Fleet        []*ManagedPlace          // places of ToolsetFleet, at least one
	All          []*ManagedPlace          // Fleet, followed by places of other toolsets
	byName       map[string]*ManagedPlace // All by name
	store        fleet.Store
	cfg          Config
	started      time.Time                 // when they were created
	shutdownAt   atomic.Pointer[time.Time] // since when the server is about to stop; nil if it is not
	storeFailure atomic.Pointer[failure]   // the error of the last read of the store; nil if it succeeded
	leaseFailure atomic.Pointer[failure]   // the error of the last renewal of leases; nil if it succeeded
	probe        probe
	changed      notify.Subscribers

	mu                   sync.Mutex
	placesOnOtherServers map[string]*ManagedPlace // places of other servers that were requested so far, by name
}

func newPlaces(store fleet.Store, ofFleet []fleet.Place, cfg Config) *Places {
	ps := &Places{byName: map[string]*ManagedPlace{}, placesOnOtherServers: map[string]*ManagedPlace{}, store: store, cfg: cfg, started: cfg.Now()}
	for _, p := range ofFleet {
		if m := ps.add(p); m != nil {
			m.OfFleet = true
			ps.Fleet = append(ps.Fleet, m)
		}
	}
	for _, p := range cfg.OtherPlaces {
		ps.add(p)
	}
	return ps
}

// add adds the place and returns it; nil if it was added before.
func (ps *Places) add(p fleet.Place) *ManagedPlace {
	if ps.byName[p.Traits().Name] != nil {
		return nil
	}
	m := ps.newManaged(p)
	ps.byName[m.Name] = m
	ps.All = append(ps.All, m)
	return m
}

// newManaged returns the place as a ManagedPlace, about which this process knows nothing yet.
func (ps *Places) newManaged(p fleet.Place) *ManagedPlace {
	t := p.Traits()
	return &ManagedPlace{
		Place: p, Name: t.Name, Catalog: newCatalog(p, ps.cfg.Now), places: ps,
		Interval: cmp.Or(ps.cfg.PollInterval, t.PollInterval, 5*time.Second), Grace: cmp.Or(ps.cfg.StopGrace, t.StopGrace, 5*time.Second),
	}
}

// Of returns the place of the agent. If another server has the place, the result only reads from that server. If the place is no
// longer configured, the calls of the result fail, so that the agent stays until the place is configured again.
func (ps *Places) Of(a *fleet.Agent) *ManagedPlace {
	if p := ps.Named(a.Place); p != nil {
		return p
	}
	return ps.absent(a.Place)
}

// Named returns the place with the name, which may be a place of another server; nil if there is none.
func (ps *Places) Named(name string) *ManagedPlace {
	if p := ps.Configured(name); p != nil {
		return p
	}
	return ps.placeOnOtherServer(name)
}

// Configured returns the place with the name; nil if it is not configured. An empty name means the first place. A place that is
// bound to a machine is found with and without the name of this server.
func (ps *Places) Configured(name string) *ManagedPlace {
	if name == "" {
		return ps.Fleet[0]
	}
	if p := ps.byName[name]; p != nil || ps.cfg.Replica == "" {
		return p
	}
	return ps.byName[fleet.PlaceOn(name, ps.cfg.Replica)]
}

// Names returns the names of all configured places, sorted.
func (ps *Places) Names() []string { return slices.Sorted(maps.Keys(ps.byName)) }

// WithDriver returns the first place that has the driver, places of the fleet before the others; nil if no place has it.
func (ps *Places) WithDriver(driver string) *ManagedPlace {
	for _, p := range ps.All {
		if _, ok := p.Traits().Driver(driver); ok {
			return p
		}
	}
	return nil
}

// State returns the state of the place as callers see it.
func (p *ManagedPlace) State() fleet.PlaceState {
	st := fleet.PlaceState{Name: p.Name, ObservedAt: p.ObservedAt(), StaleReason: p.staleReason()}
	switch f := p.listingFailure.Load(); {
	case f != nil:
		st.Problem = f.err.Message
	case p.Adopts() && st.ObservedAt.IsZero():
		st.Problem = "it has not listed all its agents yet"
	case st.StaleReason != "":
		st.Problem = st.StaleReason
	default:
		st.Problem = p.hiddenReason()
		st.OnlyNameConflicts = st.Problem != ""
	}
	return st
}

// absent returns a stand-in for a place that is not configured. Its calls fail.
func (ps *Places) absent(name string) *ManagedPlace {
	p := absentPlace{name: name}
	m := ps.newManaged(p)
	f := &failure{err: p.err(), at: ps.cfg.Time(), since: ps.started}
	m.callFailure.Store(f)
	m.listingFailure.Store(f)
	return m
}

// AgentWithName returns the existing agent that prevents a new agent of the place from having the name; nil if the name is free.
// It is an agent of the same owner in any place or, if the place has a single namespace, an agent of any owner in it.
func (p *ManagedPlace) AgentWithName(tx fleet.ReadTx, name, owner string) (*fleet.Agent, error) {
	agents, err := tx.Agents(fleet.AgentFilter{Name: name})
	for _, a := range agents {
		if p.NameTakenBy(a, name, owner) {
			return a, err
		}
	}
	return nil, err
}

// NameTakenBy reports whether the agent, as long as it exists, prevents a new agent of the place from having the name.
func (p *ManagedPlace) NameTakenBy(a *fleet.Agent, name, owner string) bool {
	return strings.ToLower(a.Name) == strings.ToLower(name) && (a.Owner == owner || p.Traits().UniqueNames && a.Place == p.Name) //nolint:staticcheck // as stores compare names, which EqualFold does not
}

// Subscribe returns a channel that receives a signal after this process has recorded a listing, a failure or an answer of a
// place, or the result of a renewal of its leases. A place that becomes stale only because time passes sends no signal.
func (ps *Places) Subscribe() (signal <-chan struct{}, cancel func()) { return ps.changed.Subscribe() }

// States returns the states of the fleet's places, in the order of the configuration.
func (ps *Places) States() []fleet.PlaceState {
	all := make([]fleet.PlaceState, 0, len(ps.Fleet))
	for _, p := range ps.Fleet {
		all = append(all, p.State())
	}
	return all
}
