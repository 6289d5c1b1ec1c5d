package record

import (
	"strings"

	"fleet/internal/fleet"
)

// TokenColumns are the columns of tokens. TokenArgs returns their values, and ScanToken reads them, in the same order.
const TokenColumns = `name, kind, hash, created_at, expires_at, revoked_at, agent_uid, scope, projects`

// SelectTokens is the beginning of a query whose rows ScanToken reads.
const SelectTokens = `SELECT ` + TokenColumns + ` FROM tokens `

// TokenArgs returns the values of TokenColumns.
func TokenArgs(k *fleet.Token) []any {
	return []any{
		k.Name, string(k.Kind), k.Hash, k.CreatedAt, Maybe(k.ExpiresAt), Maybe(k.RevokedAt), k.AgentUID,
		k.Scope.String(), strings.Join(k.Projects, "\n"),
	}
}

// ScanToken returns the token of a row of SelectTokens.
func ScanToken(row Scanner) (*fleet.Token, error) {
	var (
		k               fleet.Token
		scope, projects string
	)
	err := row.Scan(&k.Name, (*string)(&k.Kind), &k.Hash, (*Time)(&k.CreatedAt), (*Time)(&k.ExpiresAt), (*Time)(&k.RevokedAt), &k.AgentUID, &scope, &projects)
	if err != nil {
		return nil, err
	}
	k.Scope, _ = fleet.ParseScope(scope) // the table has no other scopes
	if projects != "" {
		k.Projects = strings.Split(projects, "\n")
	}
	return &k, nil
}
