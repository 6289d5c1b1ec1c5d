package record

import "fleet/internal/fleet"

// IdentityColumns are the columns of identities. IdentityArgs returns their values, and ScanIdentity reads them.
const IdentityColumns = `principal, source, subject_id, created_at`

// SelectIdentities is the beginning of a query whose rows ScanIdentity reads.
const SelectIdentities = `SELECT ` + IdentityColumns + ` FROM identities `

// IdentityArgs returns the values of IdentityColumns.
func IdentityArgs(i *fleet.Identity) []any {
	return []any{i.Principal, i.Source, i.SubjectID, i.CreatedAt}
}

// ScanIdentity returns the identity of a row of SelectIdentities.
func ScanIdentity(row Scanner) (*fleet.Identity, error) {
	var i fleet.Identity
	err := row.Scan(&i.Principal, &i.Source, &i.SubjectID, (*Time)(&i.CreatedAt))
	return &i, err
}
