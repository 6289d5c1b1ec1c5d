package service

import (
	"context"
	"fmt"
	"slices"

	"fleet/internal/fleet"
)

// resolveCaller returns the principal in whose name the caller acts, and a context for it. For an agent with its own token, this is the
// agent's owner, who delegates in the name of the agent's task. resolveCaller then also sets c.Caller, because the agent itself has
// chosen the request id of the call.
func (s *Service) resolveCaller(ctx context.Context, p fleet.Principal, c *Call) (context.Context, fleet.Principal, error) {
	if p.AgentUID == "" {
		return ctx, p, nil
	}
	a, err := s.AgentByUID(ctx, p.AgentUID)
	if err != nil {
		return ctx, p, err
	}
	c.Caller = p.Name + "/" + p.AgentUID
	owner := s.PrincipalOfAgent(a)
	owner.Scope, owner.TaskID, owner.Grant = fleet.ScopeRun, p.TaskID, p.Grant
	return fleet.WithPrincipal(ctx, owner), owner, nil
}

func errMayNotDelegate() error {
	return fleet.DelegationRefused("may", 0, 0, "your role may not delegate tasks")
}

// isDelegating reports whether the principal delegates tasks in the name of an agent.
func isDelegating(p fleet.Principal) bool { return p.TaskID != "" && p.Grant != nil }

// isLimitedToTree reports whether p reaches only one task and the tasks below it, because p is an agent, or the owner for whom an agent
// delegates.
func isLimitedToTree(p fleet.Principal) bool { return p.AgentUID != "" || isDelegating(p) }

// checkGrantTarget returns DELEGATION_REFUSED if the grant does not name the target of the request. It does not check whether the target
// exists.
func checkGrantTarget(g *fleet.Grant, r QueueTaskRequest) error {
	switch {
	case r.Pool != "" && !slices.Contains(g.Pools, r.Pool), r.Project != "" && !g.NamesProject(r.Project):
		return errTargetRefused(g, r)
	case r.Role != "" && !g.AllowsRole(r.Role):
		return fleet.DelegationRefused("roles", 0, 0, "your role may not delegate tasks to the role %q: it may use %s", fleet.Shorten(r.Role, 60), namesOrNone(g.Roles)).With("field", "role")
	}
	return nil
}

// errTargetRefused returns the error for a pool or a project that the grant does not name, or that does not exist.
func errTargetRefused(g *fleet.Grant, r QueueTaskRequest) error {
	if r.Pool != "" {
		return fleet.DelegationRefused("pools", 0, 0, "your role may not delegate tasks to the pool %q: it may use %s", fleet.Shorten(r.Pool, 60), namesOrNone(g.Pools)).With("field", "pool")
	}
	return fleet.DelegationRefused("projects", 0, 0, "your role may not delegate tasks to the project %q: it may use %s", fleet.Shorten(r.Project, 60), namesOrNone(g.Projects)).With("field", "project")
}

func namesOrNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return fleet.JoinNames(names)
}

// delegatedAgent returns the agent that ref names if its last task is below the task of p. Otherwise the error is AGENT_NOT_FOUND.
func (s *Service) delegatedAgent(ctx context.Context, p fleet.Principal, ref string) (*fleet.AgentView, error) {
	v, _, err := s.agent(ctx, ref, fleet.AccessRun)
	if err != nil {
		return nil, fleet.AgentNotFound(ref)
	}
	err = s.store.View(ctx, func(tx fleet.ReadTx) error { return requireDescendant(tx, p, v, ref) })
	return v, err
}

// requireDescendant returns AGENT_NOT_FOUND unless the agent's last task is below the task for which p acts.
func requireDescendant(tx fleet.ReadTx, p fleet.Principal, v *fleet.AgentView, ref string) error {
	last := v.Task
	if last == nil {
		tasks, err := tx.LastTasks([]string{v.UID})
		if err != nil {
			return err
		}
		if len(tasks) == 0 {
			return fleet.AgentNotFound(ref)
		}
		last = tasks[0]
	}
	isBelow, err := isDescendant(tx, last, p.TaskID)
	if err == nil && !isBelow {
		err = fleet.AgentNotFound(ref)
	}
	return err
}

// isDescendant reports whether t is below the task with the id, which means that an ancestor of t has the id.
func isDescendant(tx fleet.ReadTx, t *fleet.Task, id string) (isBelow bool, err error) {
	for n := 0; id != "" && t != nil && t.ParentID != "" && n <= t.Delegation.Depth; n++ {
		if t.ParentID == id {
			return true, nil
		}
		if t, err = tx.Task(t.ParentID); err != nil {
			return false, err
		}
	}
	return false, nil
}

// accessToDescendant returns the access of a principal that is limited to a tree: AccessView to its own task, and AccessRun to the
// tasks below it.
func accessToDescendant(tx fleet.ReadTx, p fleet.Principal, t *fleet.Task) (fleet.Access, error) {
	if t.ID == p.TaskID {
		return fleet.AccessView, nil
	}
	isBelow, err := isDescendant(tx, t, p.TaskID)
	if err != nil || !isBelow {
		return fleet.AccessNone, err
	}
	return fleet.AccessRun, nil
}

// agentStopReason returns the reason of a task that the agent of the principal has stopped.
func agentStopReason(p fleet.Principal) string {
	return fmt.Sprintf("stopped by the agent %s, which has delegated it", p.AgentName)
}
