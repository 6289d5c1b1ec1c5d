package state

import (
	"time"

	"fleet/internal/fleet"
)

// RevokeAgentTokens revokes all tokens of the agent with the uid.
func RevokeAgentTokens(tx fleet.Tx, uid string, now time.Time) error {
	tokens, err := tx.Tokens(fleet.TokenFilter{AgentUID: uid})
	if err != nil {
		return err
	}
	for _, k := range tokens {
		k.RevokedAt = now
		if err := tx.Update(k); err != nil {
			return err
		}
	}
	return nil
}
