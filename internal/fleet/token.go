package fleet

import "time"

// Token is what is kept of a token: a hash of its secret, never the secret.
type Token struct {
	Name      string // also the name of the principal it stands for
	Kind      Kind
	Admin     bool
	Hash      string // hex SHA-256 of the secret
	CreatedAt time.Time
	ExpiresAt time.Time // zero: never
	RevokedAt time.Time // zero: not revoked
	AgentUID  string    // the agent that has it, for itself alone; empty: no agent's
}

// Principal is who the holder of the token is.
func (t Token) Principal() Principal {
	return Principal{Name: t.Name, Kind: t.Kind, Admin: t.Admin}
}

// Valid says whether the token works at the time now.
func (t Token) Valid(now time.Time) bool {
	return t.RevokedAt.IsZero() && (t.ExpiresAt.IsZero() || now.Before(t.ExpiresAt))
}
