package fleet

import (
	"sync"
)

// ListAgentsRequest selects agents; the zero value selects the whole fleet.
type ListAgentsRequest struct {
	Project, Role string
	Status        Status
	Selector      string // of labels, see ParseSelector
	PageRequest
}

// AgentPage is a page of the matching agents, sorted by name. Several calls may use the same page, so a page is never changed.
type AgentPage struct {
	Agents []*AgentView
	Total  int    // number of matching agents
	Next   string // cursor after these; "" on the last page

	once    sync.Once
	derived any
}

// Derive returns the result of make, for example an encoding of the rows. Only the first call runs make; later calls get
// the same result.
func (a *AgentPage) Derive(make func() any) any {
	a.once.Do(func() { a.derived = make() })
	return a.derived
}
