package state

import (
	"slices"
	"strings"
	"sync"

	"fleet/internal/fleet"
)

// agentLists has the lists of agents that callers have requested while the fleet has not changed. Callers who may see the same
// agents and use the same filter share a list and everything that was derived from it. A changed fleet gets a new
// agentLists.
type agentLists struct {
	views  []*fleet.AgentView // every agent, by name and owner; never changed
	shares *Shares

	mu       sync.Mutex
	lists    map[listKey]*fleet.AgentPage
	size     int                  // number of agents in all lists, plus sizePerList for each list
	matchKey listKey              // key of match, without a window
	match    []*fleet.AgentView   // all agents that the last request selected, so that a request for its next page need not select them again
	places   map[listKey][]string // names of the places of the agents that a caller may see
}

const (
	// maxCacheSize limits agentLists.size. A list in all its encodings takes about 1 KB an agent.
	maxCacheSize = 20000
	// sizePerList is added to agentLists.size for each list, to limit the number of empty lists too.
	sizePerList = 100
)

// listKey identifies a list by the agents that the principal may see, the filter and the page.
type listKey struct {
	all                                 bool   // every agent, not only the owner's
	groups                              string // the principal's groups, if agents are shared with the principal
	projects                            string // projects that the principal is restricted to
	owner, project, place, role, status string
	selector                            string // of labels
	offset, count                       int
}

// List returns a page of the agents of ToolsetFleet that the principal may see and the request selects. The request's project
// must be an exact name. If place is not empty, List returns only agents of that place.
func (l *agentLists) List(p fleet.Principal, r fleet.ListAgentsRequest, place string) (*fleet.AgentPage, error) {
	offset, count, err := r.Window(0)
	if err != nil {
		return nil, err
	}
	key := l.key(p)
	key.selector = r.Selector
	key.project, key.place, key.role, key.status, key.offset, key.count = r.Project, place, strings.ToLower(r.Role), string(r.Status), offset, count
	filterKey := key
	filterKey.offset, filterKey.count = 0, 0
	l.mu.Lock()
	page, match := l.lists[key], l.match
	isSameFilter := l.matchKey == filterKey
	l.mu.Unlock()
	if page != nil {
		return page, nil
	}
	if match == nil || !isSameFilter {
		selector, err := fleet.ParseSelector("selector", r.Selector)
		if err != nil {
			return nil, err
		}
		match = l.selectAgents(p, r, selector, place)
		l.mu.Lock()
		l.matchKey, l.match = filterKey, match
		l.mu.Unlock()
	}
	page = &fleet.AgentPage{Total: len(match)}
	if page.Agents, page.Next, err = fleet.Paginate(match, r.PageRequest, 0); err != nil {
		return nil, err
	}
	return l.cache(key, page), nil
}

// selectAgents returns all agents of ToolsetFleet that the principal may see and the filter selects.
func (l *agentLists) selectAgents(p fleet.Principal, r fleet.ListAgentsRequest, selector fleet.Selector, place string) []*fleet.AgentView {
	match := make([]*fleet.AgentView, 0, 16)
	for _, v := range l.views {
		if v.Toolset == fleet.ToolsetFleet && p.Sees(&v.Agent) &&
			(r.Project == "" || v.Project == r.Project) && (place == "" || v.Place == place) &&
			(r.Role == "" || strings.EqualFold(v.Role, r.Role)) &&
			(r.Status == "" || v.Status() == r.Status) && selector.Matches(v.Labels) {
			match = append(match, v)
		}
	}
	return match
}

// key returns the key of the list of all agents that the principal may see.
func (l *agentLists) key(p fleet.Principal) listKey {
	key := listKey{all: p.Admin(), projects: strings.Join(p.Projects, "\n")}
	if key.all {
		return key
	}
	key.owner = p.Name
	if len(l.shares.SharedWith(p)) > 0 {
		key.groups = strings.Join(p.Groups, "\x00")
	}
	return key
}

// cache stores the list under the key, and returns it. If another key has an equal list, cache uses that list instead, so
// that both keys share its encodings. For example, an admin and an owner see equal lists if all agents belong to that owner.
func (l *agentLists) cache(key listKey, page *fleet.AgentPage) *fleet.AgentPage {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := sizePerList
	isEqual := false
	for _, other := range l.lists {
		if isEqual = other.Total == page.Total && other.Next == page.Next && slices.Equal(other.Agents, page.Agents); isEqual {
			page = other
			break
		}
	}
	if !isEqual {
		n += len(page.Agents)
	}
	if n > maxCacheSize {
		return page
	}
	if l.lists == nil || l.size+n > maxCacheSize {
		l.lists, l.size = map[listKey]*fleet.AgentPage{}, 0
	}
	l.lists[key] = page
	l.size += n
	return page
}

// PlacesOf returns the names of the places of the agents that the principal may see, sorted.
func (l *agentLists) PlacesOf(p fleet.Principal) []string {
	key := l.key(p)
	l.mu.Lock()
	defer l.mu.Unlock()
	if names, ok := l.places[key]; ok {
		return names
	}
	names := []string{}
	for _, v := range l.views {
		if v.Toolset == fleet.ToolsetFleet && p.Sees(&v.Agent) && !slices.Contains(names, v.Place) {
			names = append(names, v.Place)
		}
	}
	slices.Sort(names)
	if l.places == nil {
		l.places = map[listKey][]string{}
	}
	l.places[key] = names
	return names
}
