package fleet

import "sync"

// endedMost is how many agents one generation of endedAgents has.
const endedMost = 20000

// endedAgents remembers agents that had one task, which has ended, and that are deleted: nothing about them changes any
// more, and they are asked about again and again by whoever waits for them. It keeps two generations: when the young one
// is full, it becomes the old one, and what is asked for in the old one becomes young again.
type endedAgents struct {
	mu         sync.Mutex
	young, old map[string]*AgentView
}

// get returns the agent, nil when it is not remembered.
func (e *endedAgents) get(uid string) *AgentView {
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

// put remembers the agent, if nothing about it can change.
func (e *endedAgents) put(v *AgentView) {
	if !v.OneTask || v.DeletedAt.IsZero() || v.Task == nil || v.Task.Active() {
		return
	}
	small := *v // what nobody asks of it now can be large
	small.Spec, small.Recipe, small.Metadata = "", nil, nil
	task := *v.Task
	task.Description = ""
	small.Task = &task
	e.mu.Lock()
	defer e.mu.Unlock()
	e.keep(&small)
}

// forget drops the agent.
func (e *endedAgents) forget(uid string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.young, uid)
	delete(e.old, uid)
}

func (e *endedAgents) keep(v *AgentView) {
	if len(e.young) >= endedMost {
		e.old, e.young = e.young, nil
	}
	if e.young == nil {
		e.young = map[string]*AgentView{}
	}
	e.young[v.UID] = v
}
