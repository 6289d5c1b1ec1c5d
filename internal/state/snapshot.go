package state

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"fleet/internal/fleet"
)

// Snapshot is the fleet in memory: all existing agents with their running tasks. A refresh reads the Seq of the store's newest
// event and loads the agents that have changed. So after a refresh, a caller sees its own writes and those of other
// processes. Views are shared and never changed.
//
// An agent that a worker of another process is working on changes often, and most changes concern only that process. Such an
// agent is loaded when it is needed: Refresh loads all agents, and the other refreshes only those that they name.
type Snapshot struct {
	store      fleet.Store
	lastSeq    lastSeqReader
	leaseOwner string // the owner of the leases of this process's workers

	mu          sync.RWMutex
	loaded      bool
	seq         int64 // events up to it are included
	byUID       map[string]*fleet.AgentView
	byName      map[string][]*fleet.AgentView // lower-case name
	staleUIDs   map[string]struct{}           // uids of agents in byUID that have changed since they were loaded
	newUIDs     map[string]struct{}           // uids of new agents that were not loaded yet
	sortedViews []*fleet.AgentView            // by name and owner; nil if it must be rebuilt
	lists       *agentLists                   // the lists of sortedViews; nil until they are requested
	changedUIDs map[string]struct{}           // uids of the agents that TakeChanged returns next
	shares      *Shares

	onChange func(uid string) // see OnChange

	refreshSlot chan struct{} // holds a value during a refresh: one runs at a time, and others wait for it
}

// newSnapshot returns an empty snapshot. The first refresh loads it.
func newSnapshot(store fleet.Store, lastSeq lastSeqReader, leaseOwner string) *Snapshot {
	return &Snapshot{
		store: store, lastSeq: lastSeq, leaseOwner: leaseOwner, byUID: map[string]*fleet.AgentView{}, byName: map[string][]*fleet.AgentView{},
		staleUIDs: map[string]struct{}{}, newUIDs: map[string]struct{}{}, changedUIDs: map[string]struct{}{}, shares: &Shares{},
		onChange: func(string) {}, refreshSlot: make(chan struct{}, 1),
	}
}

// OnChange sets the function that refreshes, except the first, call for each changed agent, also a deleted one, before they return.
// Call OnChange before the first refresh.
func (s *Snapshot) OnChange(f func(uid string)) { s.onChange = f }

// Refresh loads the changes that were committed before the call.
func (s *Snapshot) Refresh(ctx context.Context) error { return s.refresh(ctx, refreshScope{all: true}) }

// RefreshAgents works like Refresh, at least for the agents with the uids.
func (s *Snapshot) RefreshAgents(ctx context.Context, uids ...string) error {
	return s.refresh(ctx, refreshScope{uids: uids})
}

// RefreshNamed works like Refresh, at least for the agents with the name.
func (s *Snapshot) RefreshNamed(ctx context.Context, name string) error {
	return s.refresh(ctx, refreshScope{name: strings.ToLower(name)})
}

// RefreshOwn works like Refresh, for the agents that no worker of another process was working on when they changed.
func (s *Snapshot) RefreshOwn(ctx context.Context) error { return s.refresh(ctx, refreshScope{}) }

// RefreshReleased works like Refresh, for the agents that no worker of another process is working on now.
func (s *Snapshot) RefreshReleased(ctx context.Context) error {
	return s.refresh(ctx, refreshScope{released: true})
}

// refreshScope names the agents that a refresh must load even if a worker of another process is working on them.
type refreshScope struct {
	all      bool
	released bool // all changed agents whose leases were released after the change
	uids     []string
	name     string // in lower case
}

func (s *Snapshot) refresh(ctx context.Context, scope refreshScope) error {
	last, err := s.lastSeq.last(ctx)
	if err != nil {
		return err
	}
	if s.isCurrent(last, scope) {
		return nil
	}
	select {
	case s.refreshSlot <- struct{}{}:
		defer func() { <-s.refreshSlot }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if s.isCurrent(last, scope) {
		return nil
	}
	s.mu.RLock()
	since, all := s.seq, !s.loaded
	s.mu.RUnlock()

	var changed []fleet.ChangedAgent
	var load []string
	var views []*fleet.AgentView
	var shared []*fleet.Agent
	err = s.store.View(ctx, func(tx fleet.ReadTx) (err error) {
		if all {
			if last, err = tx.LastSeq(); err != nil {
				return err
			}
			if shared, err = tx.Agents(fleet.AgentFilter{Shared: true}); err != nil {
				return err
			}
			views, err = tx.AgentViews(fleet.AgentViewFilter{Live: true})
			return err
		}
		if changed, last, err = tx.ChangedAgents(since, s.uidsToCheck(scope), s.leaseOwner); err != nil {
			return err
		}
		load = s.agentsToLoad(changed, scope)
		views, err = tx.AgentViews(fleet.AgentViewFilter{UIDs: load})
		return err
	})
	if err != nil {
		return err
	}
	s.markChanged(changed)
	s.apply(last, load, views, shared)
	return nil
}

// isCurrent reports whether a refresh is unnecessary: the snapshot has the events up to the Seq, and no agent of the scope is
// outdated.
func (s *Snapshot) isCurrent(seq int64, scope refreshScope) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.loaded && s.seq >= seq && len(s.outdatedUIDs(scope)) == 0 && (!scope.released || len(s.staleUIDs)+len(s.newUIDs) == 0)
}

// uidsToCheck returns the uids of the agents whose leases the refresh must check.
func (s *Snapshot) uidsToCheck(scope refreshScope) []string {
	if !scope.released {
		return nil
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.outdatedUIDs(refreshScope{all: true})
}

// outdatedUIDs returns the uids of the agents of the scope that have changed since they were loaded. The caller must hold mu.
func (s *Snapshot) outdatedUIDs(scope refreshScope) (uids []string) {
	if scope.all {
		uids = slices.AppendSeq(slices.Collect(maps.Keys(s.staleUIDs)), maps.Keys(s.newUIDs))
	}
	for _, uid := range scope.uids {
		_, stale := s.staleUIDs[uid]
		if _, isNew := s.newUIDs[uid]; stale || isNew {
			uids = append(uids, uid)
		}
	}
	if scope.name != "" {
		for _, v := range s.byName[scope.name] {
			if _, stale := s.staleUIDs[v.UID]; stale {
				uids = append(uids, v.UID)
			}
		}
		uids = slices.AppendSeq(uids, maps.Keys(s.newUIDs)) // any of them may have the name
	}
	return uids
}

// agentsToLoad returns the uids of the agents that a refresh loads: the outdated ones of the scope, and all changed ones that no
// worker of another process is working on.
func (s *Snapshot) agentsToLoad(changed []fleet.ChangedAgent, scope refreshScope) []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	load := map[string]struct{}{}
	for _, uid := range s.outdatedUIDs(scope) {
		load[uid] = struct{}{}
	}
	for _, c := range changed {
		v := s.byUID[c.UID]
		if !c.LeasedElsewhere || scope.all || slices.Contains(scope.uids, c.UID) || scope.name != "" && (v == nil || strings.ToLower(v.Name) == scope.name) {
			load[c.UID] = struct{}{}
		}
	}
	return slices.Collect(maps.Keys(load))
}

// markChanged marks the changed agents as stale or new, and calls onChange. apply removes the marks of the agents that were loaded.
func (s *Snapshot) markChanged(changed []fleet.ChangedAgent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range changed {
		if s.byUID[c.UID] != nil {
			s.staleUIDs[c.UID] = struct{}{}
		} else {
			s.newUIDs[c.UID] = struct{}{}
		}
		s.onChange(c.UID)
	}
}

// apply adds the views to the snapshot and sets seq. loaded has the uids of the agents that were looked up; an agent without a view is
// removed. shared has the shared agents, for the first refresh.
func (s *Snapshot) apply(seq int64, loaded []string, views []*fleet.AgentView, shared []*fleet.Agent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := !s.loaded
	s.seq, s.loaded = seq, true
	agents := shared
	for _, v := range views {
		agents = append(agents, &v.Agent)
	}
	s.shares = s.shares.update(agents)
	if len(loaded)+len(views) == 0 {
		return
	}
	for _, uid := range loaded {
		delete(s.staleUIDs, uid)
		delete(s.newUIDs, uid)
	}
	if s.lists != nil { // callers hold the old one
		s.sortedViews, s.lists = slices.Clone(s.sortedViews), nil
	}
	replaced := map[string]bool{}
	for _, v := range views {
		replaced[v.UID] = s.replace(v)
	}
	loaded = slices.DeleteFunc(loaded, func(uid string) bool { return replaced[uid] })
	views = slices.DeleteFunc(views, func(v *fleet.AgentView) bool { return replaced[v.UID] })
	if len(loaded)+len(views) > resortThreshold {
		s.sortedViews = nil
	}
	for _, uid := range loaded {
		s.remove(uid)
	}
	for _, v := range views {
		if v.DeletedAt.IsZero() {
			s.add(v)
		}
	}
	if first { // the store returns the agents nearly in this order, so sorting is fast
		s.sortedViews = slices.DeleteFunc(slices.Clone(views), func(v *fleet.AgentView) bool { return !v.DeletedAt.IsZero() })
		slices.SortFunc(s.sortedViews, ByName)
	}
}

// resortThreshold is the number of new and deleted agents at which sorting the whole fleet is faster than inserting each one.
const resortThreshold = 64

// replace replaces the view of an agent whose position in the order does not change, which is the usual case. If the position
// changes, it returns false.
func (s *Snapshot) replace(v *fleet.AgentView) bool {
	old := s.byUID[v.UID]
	if old == nil || !v.DeletedAt.IsZero() || ByName(old, v) != 0 {
		return false
	}
	s.byUID[v.UID], s.changedUIDs[v.UID] = v, struct{}{}
	key := strings.ToLower(v.Name)
	named := slices.Clone(s.byName[key])
	named[slices.Index(named, old)] = v
	s.byName[key] = named
	if i, found := slices.BinarySearchFunc(s.sortedViews, v, ByName); found {
		s.sortedViews[i] = v
	}
	return true
}

func (s *Snapshot) add(v *fleet.AgentView) {
	s.byUID[v.UID], s.changedUIDs[v.UID] = v, struct{}{}
	key := strings.ToLower(v.Name)
	s.byName[key] = append(slices.Clone(s.byName[key]), v)
	if s.sortedViews != nil {
		i, _ := slices.BinarySearchFunc(s.sortedViews, v, ByName)
		s.sortedViews = slices.Insert(s.sortedViews, i, v)
	}
}

func (s *Snapshot) remove(uid string) {
	v := s.byUID[uid]
	if v == nil {
		return
	}
	delete(s.byUID, uid)
	delete(s.changedUIDs, uid)
	key := strings.ToLower(v.Name)
	rest := slices.DeleteFunc(slices.Clone(s.byName[key]), func(x *fleet.AgentView) bool { return x.UID == uid })
	if len(rest) == 0 {
		delete(s.byName, key)
	} else {
		s.byName[key] = rest
	}
	if i, found := slices.BinarySearchFunc(s.sortedViews, v, ByName); found {
		s.sortedViews = slices.Delete(s.sortedViews, i, i+1)
	}
}

// ByName compares existing agents by name, ignoring case, and then by owner. Two of them never compare as equal.
func ByName(a, b *fleet.AgentView) int {
	return cmp.Or(cmp.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)), cmp.Compare(a.Owner, b.Owner))
}

// Get returns the agent with the uid; nil if there is none.
func (s *Snapshot) Get(uid string) *fleet.AgentView {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.byUID[uid]
}

// Find returns the agent with the name that p may see. p's own agent takes precedence. If owner is given, only its agents
// count. The error is AGENT_NOT_FOUND if there is no such agent, and INVALID_ARGUMENT if several other owners have one.
func (s *Snapshot) Find(p fleet.Principal, name, owner string) (*fleet.AgentView, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var visible []*fleet.AgentView
	for _, v := range s.byName[strings.ToLower(name)] {
		switch {
		case v.Toolset != fleet.ToolsetFleet, !p.Sees(&v.Agent):
		case owner == "" && v.Owner == p.Name, owner != "" && v.Owner == owner:
			return v, nil
		case owner == "":
			visible = append(visible, v)
		}
	}
	switch len(visible) {
	case 0:
		return nil, fleet.AgentNotFound(name)
	case 1:
		return visible[0], nil
	}
	var refs []string
	for _, v := range visible {
		refs = append(refs, v.Name+"@"+v.Owner)
	}
	slices.Sort(refs)
	return nil, fleet.InvalidField("agent_name", "several agents are named %q: say which, one of %s", name, fleet.JoinNames(refs))
}

// Shares returns the current revision of the shares.
func (s *Snapshot) Shares() *Shares {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.shares
}

// TakeChanged returns the existing agents that were loaded since its last call, in any order. Only the reconciler calls it, so that
// it does not have to examine all agents after each change.
func (s *Snapshot) TakeChanged() []*fleet.AgentView {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := make([]*fleet.AgentView, 0, len(s.changedUIDs))
	for uid := range s.changedUIDs {
		changed = append(changed, s.byUID[uid])
	}
	s.changedUIDs = map[string]struct{}{} // a new map, because a cleared one keeps its size
	return changed
}

// All returns every agent, sorted by name and owner. Callers must not change the result.
func (s *Snapshot) All() []*fleet.AgentView { return s.AgentLists().views }

// AgentLists returns the lists of the agents that the snapshot has now.
func (s *Snapshot) AgentLists() *agentLists {
	s.mu.RLock()
	lists := s.lists
	s.mu.RUnlock()
	if lists != nil {
		return lists
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sortedViews == nil {
		s.sortedViews = make([]*fleet.AgentView, 0, len(s.byUID))
		for _, v := range s.byUID {
			s.sortedViews = append(s.sortedViews, v)
		}
		slices.SortFunc(s.sortedViews, ByName)
	}
	if s.lists == nil {
		s.lists = &agentLists{views: s.sortedViews, shares: s.shares}
	}
	return s.lists
}

// ReadAgentView returns the agent, which may be deleted, with its running task; nil if there has never been such an agent.
func ReadAgentView(tx fleet.ReadTx, uid string) (*fleet.AgentView, error) {
	return fleet.First(tx.AgentViews(fleet.AgentViewFilter{UIDs: []string{uid}}))
}
