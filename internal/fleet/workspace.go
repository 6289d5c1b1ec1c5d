package fleet

import "time"

// Workspace is where an agent lives, as its place reports it.
type Workspace struct {
	ID       string
	State    State
	Reason   string // why the workspace is in this state, for people
	Location string // where it is, for people
	Metadata map[string]string
	Host     HostFacts
	// Missing means that the host does not show the workspace to the place, and does not say that it was deleted. The State
	// is then StateUnhealthy.
	Missing bool
	// MissingSince is when the host stopped showing the workspace; zero if that is not known. Only the core sets it.
	MissingSince time.Time

	// AgentUID is the agent that the workspace was made for; empty if the place does not know.
	AgentUID string
	// These are needed to adopt a workspace that the store does not know.
	Name, Owner, Project, Role, Spec string
	CreatedAt                        time.Time
	// ForeignOwnerUnknown means that the place has not yet read Host.ForeignOwner.
	ForeignOwnerUnknown bool
	// RoleUnknown means that the host does not say the role, and that Role is the default for an adopted agent.
	RoleUnknown bool
}

// CheckRunning returns AGENT_OFFLINE, with the reason, if the agent's workspace does not run.
func (w Workspace) CheckRunning(agent string) error {
	if w.State == StateRunning {
		return nil
	}
	state := string(w.State)
	if w.Reason != "" {
		state += ": " + w.Reason
	}
	return Errorf(ReasonAgentOffline, "the agent %q cannot work, its workspace is %s", agent, state).With("state", string(w.State))
}
