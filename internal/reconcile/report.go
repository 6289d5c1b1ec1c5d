package reconcile

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/state"
)

// reportSlack is how much longer than its task an agent's token is valid, to allow for clock differences.
const reportSlack = time.Minute

// errTaskEnded means that a task has ended since it was loaded.
var errTaskEnded = errors.New("the task has ended meanwhile")

// report creates a token for the agent's task if the agent itself calls Fleet, to report its result or to run subagents. It
// returns nil if the agent does neither, or cannot reach Fleet. It revokes the token of an earlier dispatch of the task, which
// may have been interrupted. If the task has ended, the error is errTaskEnded, because nothing would revoke the token.
func (w *worker) report(ctx context.Context, a *fleet.Agent, t *fleet.Task) (*fleet.Report, error) {
	if a.Config == nil || !a.Config.Reports && len(a.Config.Calls) == 0 || !w.places.Of(a).Traits().TakesReport || w.cfg.MCPURL == nil {
		return nil, nil //nolint:nilnil // the agent gets no token, which is not an error
	}
	url := w.cfg.MCPURL()
	if url == "" {
		return nil, nil //nolint:nilnil // as above
	}
	toolset := fleet.ToolsetSubagents
	if a.Config.Reports {
		toolset = fleet.ToolsetLifecycle
	}
	secret := fleet.AgentTokenPrefix + rand.Text() + rand.Text()
	now := w.now()
	err := w.store.Update(ctx, func(tx fleet.Tx) error {
		current, err := tx.ActiveTask(a.UID)
		switch {
		case err != nil:
			return err
		case current == nil || current.ID != t.ID:
			return errTaskEnded
		}
		if err := state.RevokeAgentTokens(tx, a.UID, now); err != nil {
			return err
		}
		return tx.Insert(&fleet.Token{
			Name: "agent/" + a.UID, Kind: fleet.AgentKind, Scope: fleet.ScopeRun, Hash: fleet.HashSecret(secret), CreatedAt: now, AgentUID: a.UID,
			ExpiresAt: t.StartedAt.Add(t.Timeout + reportSlack),
		})
	})
	return &fleet.Report{URL: url + "/" + string(toolset), Token: secret}, err
}
