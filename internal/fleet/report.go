package fleet

import (
	"context"
	"crypto/rand"
	"time"
)

// agentTokenPrefix is the prefix of agents' token secrets.
const agentTokenPrefix = tokenPrefix + "agent_"

// IsAgentSecret reports whether the secret looks like an agent's token.
func IsAgentSecret(secret string) bool {
	return len(secret) > len(agentTokenPrefix) && secret[:len(agentTokenPrefix)] == agentTokenPrefix
}

// reportSlack is how much longer than its task an agent's token is valid, to allow for clock differences.
const reportSlack = time.Minute

// report creates a token for the agent's task, if its recipe lets it call Fleet and it can. It revokes the agent's
// earlier token, whose run was interrupted before it began.
func (w *worker) report(ctx context.Context, a *Agent, t *Task) (*Report, error) {
	if a.Recipe == nil || !a.Recipe.Reports && len(a.Recipe.Calls) == 0 || !w.places.of(a).Traits().TakesReport || w.cfg.MCPURL == nil {
		return nil, nil //nolint:nilnil // there is none to be had, and that is no error
	}
	url := w.cfg.MCPURL()
	if url == "" {
		return nil, nil //nolint:nilnil // as above
	}
	toolset := ToolsetSubagents
	if a.Recipe.Reports {
		toolset = ToolsetLifecycle
	}
	secret := agentTokenPrefix + rand.Text() + rand.Text()
	now := w.now()
	err := w.store.Update(ctx, func(tx Tx) error {
		if err := revokeAgentTokens(tx, a.UID, now); err != nil {
			return err
		}
		return tx.InsertToken(&Token{
			Name: "agent/" + a.UID, Kind: AgentKind, Hash: hashToken(secret), CreatedAt: now, AgentUID: a.UID,
			ExpiresAt: t.StartedAt.Add(t.Timeout + reportSlack),
		})
	})
	return &Report{URL: url + "/" + string(toolset), Token: secret}, err
}

// revokeAgentTokens revokes the agent's tokens.
func revokeAgentTokens(tx Tx, uid string, now time.Time) error {
	tokens, err := tx.AgentTokens(uid)
	if err != nil {
		return err
	}
	for _, k := range tokens {
		k.RevokedAt = now
		if err := tx.UpdateToken(k); err != nil {
			return err
		}
	}
	return nil
}

// holder returns the principal of an agent's token: the agent itself, for its owner.
func holder(a *Agent) Principal {
	p := Principal{Name: a.Owner, Kind: AgentKind, AgentUID: a.UID, AgentName: a.Name}
	if a.Recipe != nil && a.Recipe.Name != "" {
		p.AgentName = a.Recipe.Name
	}
	return p
}
