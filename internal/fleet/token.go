package fleet

import "time"

// Token is a stored token. It has the hash of its secret, never the secret.
type Token struct {
	Name      string // also the name of its principal
	Kind      Kind
	Admin     bool
	Hash      string // hex SHA-256 of the secret
	CreatedAt time.Time
	ExpiresAt time.Time // zero if it does not expire
	RevokedAt time.Time // zero if not revoked
	AgentUID  string    // the agent that holds it; empty if it is not an agent's token
}

// Principal returns the principal of the token's holder.
func (t Token) Principal() Principal {
	return Principal{Name: t.Name, Kind: t.Kind, Admin: t.Admin}
}

// Valid reports whether the token is valid at the time now.
func (t Token) Valid(now time.Time) bool {
	return t.RevokedAt.IsZero() && (t.ExpiresAt.IsZero() || now.Before(t.ExpiresAt))
}
