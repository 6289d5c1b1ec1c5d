package fleet

import (
	"sync"
)

// ListAgentsRequest selects agents; the zero value selects the whole fleet.
type ListAgentsRequest struct {
	Project, Role string
	Status        Status
	PageRequest
}

// AgentRows are a part of the matching agents, by name. Calls share them, and nobody changes them.
type AgentRows struct {
	Agents []*AgentView
	Total  int    // number of matching agents
	Next   string // cursor after these; "" on the last page

	once    sync.Once
	derived any
}

// Derive returns what make returns, for example an encoding of the rows. Only the first call runs make; the others get its result.
func (r *AgentRows) Derive(make func() any) any {
	r.once.Do(func() { r.derived = make() })
	return r.derived
}
