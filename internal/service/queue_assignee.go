package service

import (
	"context"
	"strings"

	"fleet/internal/fleet"
)

// assignee says which agent works on a queued task: an existing agent, a new one, or one that the dispatcher chooses from a target.
type assignee struct {
	agent  *fleet.AgentView // the existing agent, as it was before the transaction
	draft  *agentDraft      // the new agent
	target fleet.Target     // if agent and draft are nil
	owner  string           // of the agents of the target
}

// findAssignee finds the agent, the pool or the role that the request names, and checks that p may use it. For a new agent, it returns
// a draft and adds nothing to the store.
func (s *Service) findAssignee(ctx context.Context, p fleet.Principal, r QueueTaskRequest) (to assignee, err error) {
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
		draft, err := s.draftWaitingAgent(ctx, CreateAgentRequest{
			Name: s.generatedName(fleet.Task{Description: r.Description}.Slug()), Project: r.Project, Role: r.Role, Spec: r.Description, Labels: r.Labels,
		})
		if draft.maxIdle = r.MaxIdle; draft.maxIdle == 0 {
			draft.maxIdle = fleet.DefaultMaxIdle
		}
		to.draft = &draft
		return to, err
	}
	project, role, place, err := s.projectRole(ctx, r.Project, r.Role)
	if err == nil {
		to.owner, to.target.ProjectRole = p.Name, fleet.ProjectRole{Place: place.Name, Project: project.Name, Role: role.Name}
	}
	return to, err
}

// delegatedAssignee works like findAssignee, for a task that an agent delegates. The error is the same whether an agent, a pool or a
// project does not exist or the grant does not allow it.
func (s *Service) delegatedAssignee(ctx context.Context, p fleet.Principal, r QueueTaskRequest) (to assignee, err error) {
	if r.Agent != "" {
		to.agent, err = s.delegatedAgent(ctx, p, r.Agent)
		return to, err
	}
	if err := checkGrantTarget(p.Grant, r); err != nil {
		return to, err
	}
	to, err = s.findAssignee(ctx, p, r)
	if reason := fleet.ReasonOf(err); reason == fleet.ReasonProjectNotFound || reason == fleet.ReasonPoolNotFound {
		err = errTargetRefused(p.Grant, r)
	}
	return to, err
}

// draftWaitingAgent works like draftAgent, for an agent that waits for tasks. The error is UNIMPLEMENTED for a project whose agents
// start to work on their spec by themselves.
func (s *Service) draftWaitingAgent(ctx context.Context, r CreateAgentRequest) (agentDraft, error) {
	draft, err := s.draftAgent(ctx, r)
	if err == nil && draft.project.SpecIsTask {
		err = fleet.Errorf(fleet.ReasonUnimplemented, "agents of the project %q begin with their spec as a task, so none can wait for another one", draft.project.Name).
			Next("create the agent with {create_agent}, whose spec is the task")
	}
	return draft, err
}

// assigneeForUpdate returns the agent of a queued task in tx. If it is a new agent, assigneeForUpdate adds it to the store. For a
// target, it returns an agent that is not stored and has only the values that all agents of the target share.
func (s *Service) assigneeForUpdate(ctx context.Context, tx fleet.Tx, p fleet.Principal, to assignee) (*fleet.Agent, error) {
	switch {
	case to.agent != nil:
		v, err := agentForUpdate(tx, p, to.agent, fleet.AccessRun)
		if err != nil {
			return nil, err
		}
		return &v.Agent, nil
	case to.draft != nil:
		return s.insertAgent(ctx, tx, p, *to.draft)
	}
	return &fleet.Agent{
		Owner: to.owner, Place: to.target.Place, Project: to.target.Project, Role: to.target.Role, Pool: to.target.Pool,
		State: fleet.StateRunning, Desired: fleet.DesiredRunning,
	}, nil
}

// generatedName returns a name for a new agent: the words, as far as they fit, and a random end. words consists of ASCII characters.
func (s *Service) generatedName(words string) string {
	id := strings.ReplaceAll(s.cfg.NewID(), "-", "")
	id = id[len(id)-nameTail:]
	words = strings.Trim(words[:min(len(words), fleet.MaxAgentNameLength-nameTail-1)], "-")
	if words == "" {
		return "agent-" + id
	}
	return words + "-" + id
}

// nameTail is the number of random characters at the end of a generated name.
const nameTail = 4
