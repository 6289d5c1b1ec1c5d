package cli

// callerWithoutToken is the owner of what a caller without a token creates.
const callerWithoutToken = "local"

// ref returns the name with which a command names an agent, a pool, a schedule or a webhook. A bare name means the caller's own
// first, so ref returns NAME@OWNER unless the caller is certainly the owner. The API does not say who the caller is, but a
// caller without a token is always callerWithoutToken.
func (s *session) ref(name, owner string) string {
	if owner == "" || owner == callerWithoutToken && s.target.Token == "" && s.target.Login == nil {
		return name
	}
	return name + "@" + owner
}

// nameColumn returns the column with the names of things that have owners. With -q, its texts are arguments for other commands.
func (s *session) nameColumn() column {
	if !s.quiet {
		return column{"NAME", "name"}
	}
	return column{"NAME", func(x interface {
		GetName() string
		GetOwner() string
	},
	) string {
		return s.ref(x.GetName(), x.GetOwner())
	}}
}

// agentColumn does the same as nameColumn for the agents of messages that name an agent.
func (s *session) agentColumn() column {
	if !s.quiet {
		return column{"AGENT", "agent_name"}
	}
	return column{"AGENT", func(x interface {
		GetAgentName() string
		GetOwner() string
	},
	) string {
		return s.ref(x.GetAgentName(), x.GetOwner())
	}}
}
