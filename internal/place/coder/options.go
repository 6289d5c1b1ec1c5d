package coder

import "fleet/internal/fleet"

// CheckOptions implements fleet.Optioner. It sends no request, so it knows only what Coder and the agent's fleet-runner have
// reported before. If it lets an unsupported option pass, the runner refuses the option when the task is dispatched.
func (p *Place) CheckOptions(a fleet.Agent, o fleet.TaskOptions) error {
	id, isKnown := p.index.workspace(a.UID)
	if !isKnown {
		return nil
	}
	last, isRecent := p.recent.get(id)
	if !isRecent {
		return nil
	}
	w := p.workspace(last.ws, nil)
	switch {
	case !w.hasApp():
		return nil
	case !w.hasRunner():
		return o.CheckSupported(nil, "the workspace of agent "+a.Name+", which has AgentAPI and no fleet-runner,", nil)
	}
	if client := p.runnerClients.Lookup(p.runnerURL(w)); client != nil {
		return client.CheckOptions(o)
	}
	return nil
}
