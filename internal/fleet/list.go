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

// Derive returns what the first call's make has made of the rows, for example their encoding. It lives as long as they do.
func (r *AgentRows) Derive(make func() any) any {
	r.once.Do(func() { r.derived = make() })
	return r.derived
}
