package state

import "fleet/internal/fleet"

// ReadAgentView returns the agent with its active task, even if it is deleted; nil if it never existed.
func ReadAgentView(tx fleet.ReadTx, uid string) (*fleet.AgentView, error) {
	return fleet.First(tx.AgentViews(fleet.AgentViewFilter{UIDs: []string{uid}}))
}
