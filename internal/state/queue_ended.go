package state

import (
	"maps"
	"slices"
)

// maxEnded is how many agents whose tasks have ended are remembered for TakeEnded.
const maxEnded = 1000

// noteEnded remembers the agents, of which tasks have ended. The caller holds the lock.
func (q *Queue) noteEnded(uids map[string]bool) {
	if q.ended == nil {
		q.ended = map[string]bool{}
	}
	if len(q.ended) <= maxEnded {
		maps.Copy(q.ended, uids)
	}
}

// TakeEnded returns the uids of the agents of which tasks have ended since the last call. all means that there are too many of them to
// name them.
func (q *Queue) TakeEnded() (uids []string, all bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	uids = slices.Collect(maps.Keys(q.ended))
	clear(q.ended)
	if len(uids) > maxEnded {
		return nil, true
	}
	return uids, false
}
