package service

import (
	"sync"

	"fleet/internal/fleet"
)

// endedMost is the capacity of one generation of endedAgents.
const endedMost = 20000

// endedAgents caches deleted agents with one ended task. They hardly ever change, and callers who wait for them ask for them
// repeatedly. It has two generations: when the young one is full, it becomes the old one. A lookup moves an entry of
// the old generation into the young one.
type endedAgents struct {
	mu         sync.Mutex
	young, old map[string]*fleet.AgentView
}

// get returns the agent; nil if it is not cached.
func (e *endedAgents) get(uid string) *fleet.AgentView {
	e.mu.Lock()
	defer e.mu.Unlock()
	if v := e.young[uid]; v != nil {
		return v
	}
	v := e.old[uid]
	if v != nil {
		e.keep(v)
	}
	return v
}

// put caches the agent if it can no longer change.
func (e *endedAgents) put(v *fleet.AgentView) {
	if !v.OneTask || v.DeletedAt.IsZero() || v.Task == nil || v.Task.Active() {
		return
	}
	small := *v // drop large fields that nobody asks for any more
	small.Spec, small.Config, small.Metadata = "", nil, nil
	task := *v.Task
	task.Description = ""
	small.Task = &task
	e.mu.Lock()
	defer e.mu.Unlock()
	e.keep(&small)
}

// forget removes the agent.
func (e *endedAgents) forget(uid string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.young, uid)
	delete(e.old, uid)
}

func (e *endedAgents) keep(v *fleet.AgentView) {
	if len(e.young) >= endedMost {
		e.old, e.young = e.young, nil
	}
	if e.young == nil {
		e.young = map[string]*fleet.AgentView{}
	}
	e.young[v.UID] = v
}
