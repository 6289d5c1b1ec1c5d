package service

import (
	"context"
	"strings"

	"fleet/internal/fleet"
)

// assignee is who works on a queued task: an agent, a new agent, or one that the dispatcher chooses from a target.
type assignee struct {
	agent  *fleet.AgentView // as it was before the transaction
	added  *agentDraft
	target fleet.Target
	owner  string // of the agents of the target
}

// assignee finds the agent, the pool or the role that the request names, and checks that p may use it.
func (s *Service) assignee(ctx context.Context, p fleet.Principal, r QueueTaskRequest) (to assignee, err error) {
	switch {
	case r.Agent != "":
		to.agent, _, err = s.agent(ctx, r.Agent, fleet.AccessRun)
		return to, err
	case r.Pool != "":
		pool, err := s.openPool(ctx, p, r.Pool)
		if err != nil {
			return to, err
		}
		to.target, to.owner = pool.Target(), pool.Owner
		return to, nil
	case r.NewAgent:
		n, err := s.draftWaitingAgent(ctx, CreateAgentRequest{
			Name: s.generatedName(fleet.Task{Description: r.Description}.Slug()), Project: r.Project, Role: r.Role, Spec: r.Description, Labels: r.Labels,
		})
		if n.maxIdle = r.MaxIdle; n.maxIdle == 0 {
			n.maxIdle = fleet.DefaultMaxIdle
		}
		to.added = &n
		return to, err
	}
	project, role, place, err := s.projectRole(ctx, r.Project, r.Role)
	if err == nil {
		to.owner, to.target.ProjectRole = p.Name, fleet.ProjectRole{Place: place.Name, Project: project.Name, Role: role.Name}
	}
	return to, err
}

// delegatedAssignee works like assignee, for a task that an agent delegates. The error is the same whether something does not
// exist or the grant does not allow it.
func (s *Service) delegatedAssignee(ctx context.Context, p fleet.Principal, r QueueTaskRequest) (to assignee, err error) {
	if r.Agent != "" {
		to.agent, err = s.delegatedAgent(ctx, p, r.Agent)
		return to, err
	}
	if err := checkGrantTarget(p.Grant, r); err != nil {
		return to, err
	}
	to, err = s.assignee(ctx, p, r)
	if reason := fleet.ReasonOf(err); reason == fleet.ReasonProjectNotFound || reason == fleet.ReasonPoolNotFound {
		err = errTargetRefused(p.Grant, r)
	}
	return to, err
}

// draftWaitingAgent works like draftAgent, for an agent that waits for tasks. It refuses a project whose agents begin to work
// by themselves.
func (s *Service) draftWaitingAgent(ctx context.Context, r CreateAgentRequest) (agentDraft, error) {
	n, err := s.draftAgent(ctx, r)
	if err == nil && n.project.SpecIsTask {
		err = fleet.Errorf(fleet.ReasonUnimplemented, "agents of the project %q begin with their spec as a task, so none can wait for another one", n.project.Name).
			Next("create the agent with {create_agent}, whose spec is the task")
	}
	return n, err
}

// assigneeForUpdate returns the agent of a queued task. It adds a new agent to the store. For a target, it returns an agent
// with only the values that all agents of the target share.
func (s *Service) assigneeForUpdate(ctx context.Context, tx fleet.Tx, p fleet.Principal, to assignee) (*fleet.Agent, error) {
	switch {
	case to.agent != nil:
		v, err := agentForUpdate(tx, p, to.agent, fleet.AccessRun)
		if err != nil {
			return nil, err
		}
		return &v.Agent, nil
	case to.added != nil:
		return s.insertAgent(ctx, tx, p, *to.added)
	}
	return &fleet.Agent{
		Owner: to.owner, Place: to.target.Place, Project: to.target.Project, Role: to.target.Role, Pool: to.target.Pool,
		State: fleet.StateRunning, Desired: fleet.DesiredRunning,
	}, nil
}

// generatedName returns a name for a new agent that begins with the words, as far as they fit.
func (s *Service) generatedName(words string) string {
	id := strings.ReplaceAll(s.cfg.NewID(), "-", "")
	id = id[len(id)-nameTail:]
	words = strings.Trim(words[:min(len(words), fleet.MaxAgentNameLength-nameTail-1)], "-")
	if words == "" {
		return "agent-" + id
	}
	return words + "-" + id
}

// nameTail is the number of characters that make a generated name unique.
const nameTail = 4
