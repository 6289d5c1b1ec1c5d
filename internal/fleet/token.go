package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"
)

// AgentTokenPrefix is the prefix of agents' token secrets.
const AgentTokenPrefix = TokenPrefix + "agent_"

// IsAgentSecret reports whether the secret looks like an agent's token.
func IsAgentSecret(secret string) bool {
	return len(secret) > len(AgentTokenPrefix) && secret[:len(AgentTokenPrefix)] == AgentTokenPrefix
}

// Token is a stored token. It has the hash of its secret, never the secret.
type Token struct {
	Name      string // also the name of its principal, unless it is an agent's token
	Kind      PrincipalKind
	Scope     Scope
	Projects  []string // the projects that it is valid for; empty: all
	Hash      string   // hex SHA-256 of the secret
	CreatedAt time.Time
	ExpiresAt time.Time // zero if it does not expire
	RevokedAt time.Time // zero if not revoked; in the future if the token was rotated and still works until then
	AgentUID  string    // uid of the agent that holds it; empty if it is not an agent's token
	TaskID    string    // the only task of the agent during which it is valid
}

// Principal returns the principal of the token's holder. It is not for tokens of agents, whose principals depend on the agent.
func (t Token) Principal() Principal {
	return Principal{Name: t.Name, Kind: t.Kind, Scope: t.Scope, Projects: t.Projects, ExpiresAt: t.End(), TokenHash: t.Hash}
}

// Valid reports whether the token is valid at the time now.
func (t Token) Valid(now time.Time) bool { return t.End().IsZero() || now.Before(t.End()) }

// End returns when the token stops being valid, by revocation or expiry; zero if it does not.
func (t Token) End() time.Time {
	if t.ExpiresAt.IsZero() || !t.RevokedAt.IsZero() && t.RevokedAt.Before(t.ExpiresAt) {
		return t.RevokedAt
	}
	return t.ExpiresAt
}

// TokenPrefix is the prefix of all tokens' secrets. It makes leaked secrets easy to find.
const TokenPrefix = "fleet_"

// HashSecret returns the stored hash of a secret. The secret is random and long, so a plain hash suffices.
func HashSecret(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// CurrentToken returns, from the tokens with one name, the one that is not revoked. If all are revoked, it returns the newest one. The
// tokens are sorted from the oldest to the newest. CurrentToken returns nil if there are none, and the error of the read unchanged.
func CurrentToken(tokens []*Token, err error) (*Token, error) {
	if err != nil || len(tokens) == 0 {
		return nil, err
	}
	for _, t := range slices.Backward(tokens) {
		if t.RevokedAt.IsZero() {
			return t, nil
		}
	}
	return tokens[len(tokens)-1], nil
}
