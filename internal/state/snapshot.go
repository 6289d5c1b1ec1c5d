package state

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"fleet/internal/fleet"
)

// Snapshot is the fleet in memory: every existing agent with its active task. Each read first asks the store for the
// newest event and loads what has changed, so a caller sees its own writes and those of other processes. Its views are
// shared and never changed.
type Snapshot struct {
	store  fleet.Store
	newest *newest

	mu     sync.RWMutex
	loaded bool
	seq    int64
	byUID  map[string]*fleet.AgentView
	byName map[string][]*fleet.AgentView // lower-case name
	sorted []*fleet.AgentView            // by name and owner; nil if it must be rebuilt
	listed *listing                      // of sorted; nil until it is asked for
	fresh  map[string]struct{}           // what TakeChanged returns next, by uid
	shares *Shares

	changed func(uid string) // see OnChange

	loading chan struct{} // holds a value during a refresh: one runs at a time, and others wait for it
}

// newSnapshot returns a snapshot that is loaded by its first refresh.
func newSnapshot(store fleet.Store, n *newest) *Snapshot {
	return &Snapshot{store: store, newest: n, byUID: map[string]*fleet.AgentView{}, byName: map[string][]*fleet.AgentView{}, fresh: map[string]struct{}{}, shares: &Shares{}, changed: func(string) {}, loading: make(chan struct{}, 1)}
}

// OnChange has Refresh call f for each agent of which something has changed, also a deleted one, before Refresh returns. It is called before
// the first Refresh.
func (s *Snapshot) OnChange(f func(uid string)) { s.changed = f }

// Refresh loads what was committed before it was called.
func (s *Snapshot) Refresh(ctx context.Context) error {
	last, err := s.newest.last(ctx)
	if err != nil {
		return err
	}
	if s.has(last) {
		return nil
	}
	select {
	case s.loading <- struct{}{}:
		defer func() { <-s.loading }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if s.has(last) {
		return nil
	}
	s.mu.RLock()
	since, all := s.seq, !s.loaded
	s.mu.RUnlock()

	var uids []string
	var views []*fleet.AgentView
	var shared []*fleet.Agent
	err = s.store.View(ctx, func(tx fleet.ReadTx) (err error) {
		if last, err = tx.LastSeq(); err != nil {
			return err
		}
		if all {
			if shared, err = tx.SharedAgents(); err != nil {
				return err
			}
			views, err = tx.LiveAgentViews()
			return err
		}
		if uids, err = tx.ChangedAgents(since); err != nil {
			return err
		}
		views, err = tx.AgentViews(uids)
		return err
	})
	if err != nil {
		return err
	}
	s.apply(last, uids, views, shared)
	return nil
}

func (s *Snapshot) has(seq int64) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.loaded && s.seq >= seq
}

func (s *Snapshot) apply(seq int64, changed []string, views []*fleet.AgentView, shared []*fleet.Agent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := !s.loaded
	s.seq, s.loaded = seq, true
	for _, v := range views {
		shared = append(shared, &v.Agent)
	}
	s.shares = s.shares.with(shared)
	if len(changed)+len(views) == 0 {
		return
	}
	for _, uid := range changed {
		s.changed(uid)
	}
	if s.listed != nil { // callers hold the old one
		s.sorted, s.listed = slices.Clone(s.sorted), nil
	}
	replaced := map[string]bool{}
	for _, v := range views {
		replaced[v.UID] = s.replace(v)
	}
	changed = slices.DeleteFunc(changed, func(uid string) bool { return replaced[uid] })
	views = slices.DeleteFunc(views, func(v *fleet.AgentView) bool { return replaced[v.UID] })
	if len(changed)+len(views) > sortAnew {
		s.sorted = nil
	}
	for _, uid := range changed {
		s.remove(uid)
	}
	for _, v := range views {
		if v.DeletedAt.IsZero() {
			s.add(v)
		}
	}
	if first { // the store returns them nearly in this order, in which sorting is fast
		s.sorted = slices.DeleteFunc(slices.Clone(views), func(v *fleet.AgentView) bool { return !v.DeletedAt.IsZero() })
		slices.SortFunc(s.sorted, ByName)
	}
}

// sortAnew is the number of agents that come or go from which sorting the whole fleet is faster than inserting each.
const sortAnew = 64

// replace replaces the view of an agent that keeps its place in the order, as nearly all changes do. It returns false for others.
func (s *Snapshot) replace(v *fleet.AgentView) bool {
	old := s.byUID[v.UID]
	if old == nil || !v.DeletedAt.IsZero() || ByName(old, v) != 0 {
		return false
	}
	s.byUID[v.UID], s.fresh[v.UID] = v, struct{}{}
	key := strings.ToLower(v.Name)
	named := slices.Clone(s.byName[key])
	named[slices.Index(named, old)] = v
	s.byName[key] = named
	if i, found := slices.BinarySearchFunc(s.sorted, v, ByName); found {
		s.sorted[i] = v
	}
	return true
}

func (s *Snapshot) add(v *fleet.AgentView) {
	s.byUID[v.UID], s.fresh[v.UID] = v, struct{}{}
	key := strings.ToLower(v.Name)
	s.byName[key] = append(slices.Clone(s.byName[key]), v)
	if s.sorted != nil {
		i, _ := slices.BinarySearchFunc(s.sorted, v, ByName)
		s.sorted = slices.Insert(s.sorted, i, v)
	}
}

func (s *Snapshot) remove(uid string) {
	v := s.byUID[uid]
	if v == nil {
		return
	}
	delete(s.byUID, uid)
	delete(s.fresh, uid)
	key := strings.ToLower(v.Name)
	rest := slices.DeleteFunc(slices.Clone(s.byName[key]), func(x *fleet.AgentView) bool { return x.UID == uid })
	if len(rest) == 0 {
		delete(s.byName, key)
	} else {
		s.byName[key] = rest
	}
	if i, found := slices.BinarySearchFunc(s.sorted, v, ByName); found {
		s.sorted = slices.Delete(s.sorted, i, i+1)
	}
}

// ByName is the order of the fleet. It is total.
func ByName(a, b *fleet.AgentView) int {
	return cmp.Or(cmp.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)), cmp.Compare(a.Owner, b.Owner))
}

// Get returns the agent with the uid; nil if there is none.
func (s *Snapshot) Get(uid string) *fleet.AgentView {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.byUID[uid]
}

// Find returns the agent that p's reference names: p's own first, another owner's only if p sees it.
func (s *Snapshot) Find(p fleet.Principal, name, owner string) (*fleet.AgentView, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var seen []*fleet.AgentView
	for _, v := range s.byName[strings.ToLower(name)] {
		switch {
		case v.Toolset != fleet.ToolsetFleet, !p.Sees(&v.Agent):
		case owner == "" && v.Owner == p.Name, owner != "" && v.Owner == owner:
			return v, nil
		case owner == "":
			seen = append(seen, v)
		}
	}
	switch len(seen) {
	case 0:
		return nil, fleet.AgentNotFound(name)
	case 1:
		return seen[0], nil
	}
	var refs []string
	for _, v := range seen {
		refs = append(refs, v.Name+"@"+v.Owner)
	}
	slices.Sort(refs)
	return nil, fleet.Invalid(fleet.ReasonInvalidArgument, "agent_name", "several agents are named %q: say which, one of %s", name, fleet.JoinNames(refs))
}

// Shares returns the current revision of the shares.
func (s *Snapshot) Shares() *Shares {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.shares
}

// TakeChanged returns the agents that were loaded since it was last called, in no order. It has one caller, which need not look through all agents.
func (s *Snapshot) TakeChanged() []*fleet.AgentView {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := make([]*fleet.AgentView, 0, len(s.fresh))
	for uid := range s.fresh {
		changed = append(changed, s.byUID[uid])
	}
	s.fresh = map[string]struct{}{} // a map that was large would stay so
	return changed
}

// All returns every agent, by name and owner.
func (s *Snapshot) All() []*fleet.AgentView { return s.Listing().views }

// Listing returns the current revision of the fleet.
func (s *Snapshot) Listing() *listing {
	s.mu.RLock()
	listed := s.listed
	s.mu.RUnlock()
	if listed != nil {
		return listed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sorted == nil {
		s.sorted = make([]*fleet.AgentView, 0, len(s.byUID))
		for _, v := range s.byUID {
			s.sorted = append(s.sorted, v)
		}
		slices.SortFunc(s.sorted, ByName)
	}
	if s.listed == nil {
		s.listed = &listing{views: s.sorted, shares: s.shares}
	}
	return s.listed
}
