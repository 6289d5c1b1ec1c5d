package fleet

import (
	"slices"
	"strings"
	"sync"
)

// listing is one revision of the fleet, with the lists of it that callers have asked for. Callers who see the same
// agents with the same filter share a list, and whatever else was made of it. It ends with its revision.
type listing struct {
	views []*AgentView // every agent, by name and owner; never changed

	mu     sync.Mutex
	lists  map[listKey]*AgentRows
	kept   int                  // agents of all lists, and leastKept for each
	places map[listKey][]string // by whose agents they are
}

const (
	// maxKept limits what a listing keeps. A list in all its encodings has about 1 KB an agent.
	maxKept = 20000
	// leastKept is what a list without agents counts, so that there are not many of them.
	leastKept = 100
)

// listKey identifies a list of a revision.
type listKey struct {
	all                                bool // every agent, not just the owner's
	owner, project, place, role, state string
	offset, count                      int
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

// list returns the agents that the principal may see and the request selects. The request's filter is resolved.
func (l *listing) list(p Principal, r ListAgentsRequest, place string) (*AgentRows, error) {
	offset, count, err := r.Window(0)
	if err != nil {
		return nil, err
	}
	key := listKey{
		all: p.Admin, project: r.Project, place: place, role: strings.ToLower(r.Role), state: string(r.Status), offset: offset, count: count,
	}
	if !p.Admin {
		key.owner = p.Name
	}
	l.mu.Lock()
	rows := l.lists[key]
	l.mu.Unlock()
	if rows != nil {
		return rows, nil
	}
	match := make([]*AgentView, 0, 16)
	for _, v := range l.views {
		if v.Toolset == ToolsetFleet && p.MaySee(v.Owner) &&
			(r.Project == "" || v.Project == r.Project) && (place == "" || v.Place == place) &&
			(r.Role == "" || strings.EqualFold(v.Role, r.Role)) &&
			(r.Status == "" || v.Status() == r.Status) {
			match = append(match, v)
		}
	}
	rows = &AgentRows{Total: len(match)}
	if rows.Agents, rows.Next, err = Cut(match, r.PageRequest, 0); err != nil {
		return nil, err
	}
	return l.keep(key, rows), nil
}

// keep remembers the list under the key. It returns an equal list instead if there is one, for example of an admin who
// sees the agents of one owner because there are no others.
func (l *listing) keep(key listKey, rows *AgentRows) *AgentRows {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := leastKept
	same := false
	for _, other := range l.lists {
		if same = other.Total == rows.Total && other.Next == rows.Next && slices.Equal(other.Agents, rows.Agents); same {
			rows = other
			break
		}
	}
	if !same {
		n += len(rows.Agents)
	}
	if n > maxKept {
		return rows
	}
	if l.lists == nil || l.kept+n > maxKept {
		l.lists, l.kept = map[listKey]*AgentRows{}, 0
	}
	l.lists[key] = rows
	l.kept += n
	return rows
}

// placesOf returns the names of the places of the agents that the principal may see, sorted.
func (l *listing) placesOf(p Principal) []string {
	key := listKey{all: p.Admin}
	if !p.Admin {
		key.owner = p.Name
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if names, ok := l.places[key]; ok {
		return names
	}
	names := []string{}
	for _, v := range l.views {
		if v.Toolset == ToolsetFleet && p.MaySee(v.Owner) && !slices.Contains(names, v.Place) {
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
