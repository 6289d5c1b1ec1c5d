//go:build cgo

package run

import (
	"context"
	"fmt"

	"github.com/docker/cagent/pkg/agent"
	"github.com/docker/cagent/pkg/team"

	"fleet/internal/model/definition"
)

// defaultMaxTokens limits the tokens of an answer if the definition has no limit for the model.
const defaultMaxTokens int64 = 32000

// agentTeam holds the agents of a definition for one run. It is not made by the library's own loader, because that
// loader makes network requests and gives every tool the whole environment of the process.
type agentTeam struct {
	*team.Team
	mainAgent string // the agent that receives the prompt
	guards    []*guard
}

// newTeam creates the agents of the run's definition, with their models and toolsets.
func (r *run) newTeam(ctx context.Context) (*agentTeam, error) {
	agentConfig := r.job.Config
	d, err := definition.FromConfig(agentConfig)
	if err == nil && r.settings.NoPrograms {
		err = d.CheckPrograms()
	}
	if err != nil {
		return nil, err
	}
	name, err := d.AgentName(agentConfig.Agent)
	if err != nil {
		return nil, err
	}
	b := &builder{run: r, def: d, agentConfig: agentConfig, mainAgent: name, workDir: r.job.WorkDir, rules: newRules(d.Config.Permissions, agentConfig)}
	agents := map[string]*agent.Agent{}
	var all []*agent.Agent
	for _, n := range d.Agents {
		c := d.Config.Agents[n]
		a, err := b.newAgent(ctx, n, &c)
		if err != nil {
			return nil, fmt.Errorf("agent %q: %w", n, err)
		}
		agents[n] = a
		all = append(all, a)
	}
	for _, n := range d.Agents {
		c := d.Config.Agents[n]
		agent.WithSubAgents(agentsNamed(agents, c.SubAgents)...)(agents[n])
		agent.WithHandoffs(agentsNamed(agents, c.Handoffs)...)(agents[n])
	}
	return &agentTeam{team.New(team.WithAgents(all...), team.WithPermissions(b.rules.deny)), name, b.guards}, nil
}

func agentsNamed(agents map[string]*agent.Agent, names []string) []*agent.Agent {
	var out []*agent.Agent
	for _, n := range names {
		out = append(out, agents[n])
	}
	return out
}
