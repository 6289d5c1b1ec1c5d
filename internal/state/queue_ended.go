package state

import (
	"maps"
	"slices"
)

// maxEndedAgents is the maximum number of agents that TakeAgentsWithEndedTasks names.
const maxEndedAgents = 1000

// noteEnded remembers the agents whose tasks have ended. TakeAgentsWithEndedTasks returns them. The caller holds the lock.
func (q *Queue) noteEnded(uids map[string]bool) {
	if q.endedAgents == nil {
		q.endedAgents = map[string]bool{}
	}
	if len(q.endedAgents) <= maxEndedAgents {
		maps.Copy(q.endedAgents, uids)
	}
}

// TakeAgentsWithEndedTasks returns the uids of the agents whose tasks have ended since the last call. all means that they are too
// many to name, so that the caller must examine all agents.
func (q *Queue) TakeAgentsWithEndedTasks() (uids []string, all bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	uids = slices.Collect(maps.Keys(q.endedAgents))
	clear(q.endedAgents)
	if len(uids) > maxEndedAgents {
		return nil, true
	}
	return uids, false
}
