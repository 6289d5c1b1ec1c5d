package service

import (
	"sync"

	"fleet/internal/fleet"
)

// maxEndedAgents is the capacity of one generation of endedAgents.
const maxEndedAgents = 20000

// endedAgents caches deleted agents whose only task has ended. Such agents hardly ever change, and waiting callers request them
// repeatedly. The cache has two generations: when the young generation is full, it becomes the old one. A lookup copies an entry from
// the old generation to the young one.
type endedAgents struct {
	mu         sync.Mutex
	young, old map[string]*fleet.AgentView
	loads      map[string]*agentLoad // by agent: the newest load that may still cache it
}

// agentLoad is one read of agents from the store. It begins before the read's transaction and ends after it.
type agentLoad struct{ uids []string }

// get returns the agent; nil if it is not cached.
func (e *endedAgents) get(uid string) *fleet.AgentView {
	e.mu.Lock()
	defer e.mu.Unlock()
	if v := e.young[uid]; v != nil {
		return v
	}
	v := e.old[uid]
	if v != nil {
		e.addYoung(v)
	}
	return v
}

// begin starts a load of the agents. The caller must end it.
func (e *endedAgents) begin(uids []string) *agentLoad {
	l := &agentLoad{uids}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.loads == nil {
		e.loads = map[string]*agentLoad{}
	}
	for _, uid := range uids {
		e.loads[uid] = l
	}
	return l
}

// end ends the load.
func (e *endedAgents) end(l *agentLoad) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, uid := range l.uids {
		if e.loads[uid] == l {
			delete(e.loads, uid)
		}
	}
}

// put caches an agent of the load if it is deleted and its only task has ended. It does nothing if forget was called for the
// agent since the load began, because the load may have read an outdated state.
func (e *endedAgents) put(l *agentLoad, v *fleet.AgentView) {
	if !v.OneTask || v.DeletedAt.IsZero() || v.Task == nil || v.Task.Active() {
		return
	}
	small := *v // a copy without the large fields, which callers no longer need
	small.Spec, small.Config, small.Metadata = "", nil, nil
	task := *v.Task
	task.Description = ""
	small.Task = &task
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.loads[v.UID] == l {
		e.addYoung(&small)
	}
}

// forget removes the agent, and prevents loads that have begun from caching it.
func (e *endedAgents) forget(uid string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.young, uid)
	delete(e.old, uid)
	delete(e.loads, uid)
}

// addYoung adds the agent to the young generation. The caller holds mu.
func (e *endedAgents) addYoung(v *fleet.AgentView) {
	if len(e.young) >= maxEndedAgents {
		e.old, e.young = e.young, nil
	}
	if e.young == nil {
		e.young = map[string]*fleet.AgentView{}
	}
	e.young[v.UID] = v
}
