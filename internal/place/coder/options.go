package coder

import "fleet/internal/fleet"

// CheckOptions implements fleet.Optioner. It makes no request: it knows only what Coder and the agent's fleet-runner have said
// before. What it cannot know, the runner refuses when the task is dispatched.
func (b *Place) CheckOptions(a fleet.Agent, o fleet.TaskOptions) error {
	id, known := b.known.workspace(a.UID)
	if !known {
		return nil
	}
	b.recent.mu.Lock()
	last, seen := b.recent.byID[id]
	b.recent.mu.Unlock()
	if !seen {
		return nil
	}
	at := b.place(last.ws, nil)
	switch {
	case at.hasNoApp():
		return nil
	case !at.hasRunner():
		return o.Unsupported(nil, "the workspace of agent "+a.Name+", which has AgentAPI and no fleet-runner,", nil)
	}
	if client := b.remotes.Known(b.runnerURL(at)); client != nil {
		return client.CheckOptions(o)
	}
	return nil
}
