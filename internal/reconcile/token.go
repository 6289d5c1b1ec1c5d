package reconcile

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/state"
)

// tokenSlack is how much longer than its task an agent's token is valid, to allow for clock differences.
const tokenSlack = time.Minute

// allTools is the toolset with all the tools that the agent's token allows.
const allTools = "all"

// errTaskEnded means that a task has ended since it was loaded.
var errTaskEnded = errors.New("the task has ended meanwhile")

// issueToken creates a token for the agent's task if the agent itself calls Fleet, to report its result, to run subagents or
// to delegate tasks. It returns the token and the URL that the agent calls, or nil if the agent does none of that, cannot reach
// Fleet, or is used by a person on a terminal. It revokes the agent's earlier tokens, for example that of an interrupted dispatch
// of the task. If the task has ended, the error is errTaskEnded, because nothing would revoke the token. taskGrant is what the agent may
// delegate with the token; issueToken also stores it. It does not change t, which may be a part of the snapshot.
func (w *worker) issueToken(ctx context.Context, a *fleet.Agent, t *fleet.Task) (_ *fleet.ServerEndpoint, taskGrant *fleet.Grant, err error) {
	placeGrant, traits := w.places.Of(a).Grant(a.Project, a.Role), w.places.Of(a).Traits()
	reports, hasSubagents := a.Config != nil && a.Config.Reports, a.Config != nil && len(a.Config.Subagents) > 0
	if placeGrant == nil && !reports && !hasSubagents || !traits.ReachesFleet || t.Options.Attached != nil {
		return nil, nil, nil
	}
	url := traits.FleetURL
	if url == "" && w.cfg.MCPURL != nil {
		url = w.cfg.MCPURL()
	}
	if url == "" {
		return nil, nil, nil
	}
	toolset := string(fleet.ToolsetSubagents)
	switch {
	case placeGrant != nil:
		toolset = allTools
	case reports:
		toolset = string(fleet.ToolsetLifecycle)
	}
	secret := fleet.AgentTokenPrefix + rand.Text() + rand.Text()
	now := w.now()
	err = w.store.Update(ctx, func(tx fleet.Tx) error {
		current, err := tx.RunningTask(a.UID)
		switch {
		case err != nil:
			return err
		case current == nil || current.ID != t.ID:
			return errTaskEnded
		}
		if placeGrant != nil || current.Delegation.Grant != nil {
			var parentGrant *fleet.Grant
			if current.ParentID != "" {
				parent, err := tx.Task(current.ParentID)
				if err != nil {
					return err
				}
				if parent != nil {
					parentGrant = parent.Delegation.Grant
				}
			}
			current.Delegation.Grant = placeGrant.Intersect(parentGrant, current.Delegation.Depth)
			if err := tx.Update(current); err != nil {
				return err
			}
		}
		taskGrant = current.Delegation.Grant
		if err := state.RevokeAgentTokens(tx, a.UID, now); err != nil {
			return err
		}
		return tx.Insert(&fleet.Token{
			Name: "agent/" + a.UID, Kind: fleet.KindAgent, Scope: fleet.ScopeRun, Hash: fleet.HashSecret(secret), CreatedAt: now, AgentUID: a.UID, TaskID: t.ID,
			ExpiresAt: t.StartedAt.Add(t.Timeout + tokenSlack),
		})
	})
	return &fleet.ServerEndpoint{URL: url + "/" + toolset, Token: secret}, taskGrant, err
}
