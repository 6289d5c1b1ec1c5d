package state

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"

	"fleet/internal/fleet"
)

// Shares is one revision of the shares of all agents. It includes deleted agents, because people with a share may still see
// the agent's history. There is a new revision only if a share has changed, or the owner, the name or the deletion of a shared
// agent. So callers can compare the pointers of two revisions.
type Shares struct {
	agents map[string]*fleet.Agent // shared agents by uid, without their large fields; never changed

	mu   sync.Mutex
	uids map[string][]string // results of SharedWith, by principal
}

// update returns the revision after changes of the agents. It returns s itself if they do not change the shares.
func (s *Shares) update(changed []*fleet.Agent) *Shares {
	var next map[string]*fleet.Agent
	for _, a := range changed {
		old := s.agents[a.UID]
		if old == nil && len(a.Shares) == 0 || old != nil && slices.Equal(old.Shares, a.Shares) && old.Owner == a.Owner && old.Name == a.Name &&
			old.DeletedAt.Equal(a.DeletedAt) {
			continue
		}
		if next == nil {
			next = make(map[string]*fleet.Agent, len(s.agents)+1)
			maps.Copy(next, s.agents)
		}
		if len(a.Shares) == 0 {
			delete(next, a.UID)
		} else {
			shared := *a
			shared.Spec, shared.Config, shared.Metadata = "", nil, nil // large, not needed here, and a deleted agent stays here
			next[a.UID] = &shared
		}
	}
	if next == nil {
		return s
	}
	return &Shares{agents: next}
}

// SharedWith returns the uids of the agents that are shared with p, sorted. Callers must not change the result.
func (s *Shares) SharedWith(p fleet.Principal) []string {
	if len(s.agents) == 0 || p.Admin() {
		return nil
	}
	key := strings.Join(append([]string{p.Name, p.AgentUID, strings.Join(p.Projects, "\n")}, p.Groups...), "\x00")
	s.mu.Lock()
	defer s.mu.Unlock()
	if uids, ok := s.uids[key]; ok {
		return uids
	}
	var uids []string
	for uid, a := range s.agents {
		if p.Name != a.Owner && p.Sees(a) {
			uids = append(uids, uid)
		}
	}
	slices.Sort(uids)
	if s.uids == nil {
		s.uids = map[string][]string{}
	}
	s.uids[key] = uids
	return uids
}

// Agent returns the shared agent with the uid, with its shares in this revision.
func (s *Shares) Agent(uid string) *fleet.Agent { return s.agents[uid] }

// Named returns the agent with the name that is shared with p; nil if there is none. If owner is given, only its agents
// count. An existing agent takes precedence over deleted agents, and a newer agent over older ones.
func (s *Shares) Named(p fleet.Principal, name, owner string) (found *fleet.Agent) {
	for _, uid := range s.SharedWith(p) {
		a := s.agents[uid]
		if !strings.EqualFold(a.Name, name) || owner != "" && a.Owner != owner {
			continue
		}
		if found == nil || byAge(a, found) > 0 {
			found = a
		}
	}
	return found
}

// byAge orders agents: deleted ones before existing ones, and older ones first.
func byAge(a, b *fleet.Agent) int {
	switch aExists, bExists := a.DeletedAt.IsZero(), b.DeletedAt.IsZero(); {
	case aExists && !bExists:
		return 1
	case bExists && !aExists:
		return -1
	}
	return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.UID, b.UID))
}
