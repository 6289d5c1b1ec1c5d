package fleet

import "sync"

// ListAgentsRequest selects agents. The zero value selects all agents that the caller may see.
type ListAgentsRequest struct {
	Project, Role string
	Status        Status
	Selector      string // of labels, see ParseSelector
	PageRequest
}

// AgentPage is a page of the matching agents, sorted by name. Several calls may share a page, so nobody may change it.
type AgentPage struct {
	Agents []*AgentView
	Total  int    // number of matching agents
	Next   string // cursor after these; "" on the last page

	once    sync.Once
	derived any
}

// Derive returns the result of compute, for example an encoding of the rows. Only the first call runs compute; later calls get
// the same result.
func (a *AgentPage) Derive(compute func() any) any {
	a.once.Do(func() { a.derived = compute() })
	return a.derived
}
