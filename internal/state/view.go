package state

import "fleet/internal/fleet"

// ReadAgentView returns the agent with its active task, even if it is deleted; nil if it never existed.
func ReadAgentView(tx fleet.ReadTx, uid string) (*fleet.AgentView, error) {
	views, err := tx.AgentViews(fleet.AgentViewFilter{UIDs: []string{uid}})
	if err != nil || len(views) == 0 {
		return nil, err
	}
	return views[0], nil
}
