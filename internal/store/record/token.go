package record

import (
	"strings"

	"fleet/internal/fleet"
)

// TokenColumns are the columns of tokens. TokenArgs returns their values, and ScanToken reads them, in the same order.
const TokenColumns = `name, kind, admin, hash, created_at, expires_at, revoked_at, agent_uid, scope, projects`

// SelectTokens is the beginning of a query whose rows ScanToken reads.
const SelectTokens = `SELECT ` + TokenColumns + ` FROM tokens `

// TokenArgs returns the values of TokenColumns.
func TokenArgs(k *fleet.Token) []any {
	return []any{
		k.Name, string(k.Kind), k.Scope == fleet.ScopeAdmin, k.Hash, k.CreatedAt, Maybe(k.ExpiresAt), Maybe(k.RevokedAt), k.AgentUID,
		k.Scope.String(), strings.Join(k.Projects, "\n"),
	}
}

// ScanToken returns the token of a row of SelectTokens.
func ScanToken(row Scanner) (*fleet.Token, error) {
	var (
		k               fleet.Token
		admin           bool
		scope, projects string
	)
	err := row.Scan(&k.Name, (*string)(&k.Kind), &admin, &k.Hash, (*Time)(&k.CreatedAt), (*Time)(&k.ExpiresAt), (*Time)(&k.RevokedAt), &k.AgentUID, &scope, &projects)
	if err != nil {
		return nil, err
	}
	if k.Scope = fleet.ScopeRun; scope != "" {
		k.Scope, _ = fleet.ParseScope(scope)
	} else if admin {
		k.Scope = fleet.ScopeAdmin
	}
	if projects != "" {
		k.Projects = strings.Split(projects, "\n")
	}
	return &k, nil
}
