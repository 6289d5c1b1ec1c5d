package record

import (
	"encoding/json"

	"fleet/internal/fleet"
)

// IdentityColumns are the columns of identities. IdentityArgs returns their values, and ScanIdentity reads them, in the
// same order.
const IdentityColumns = `principal, source, subject_id, created_at, member_of`

// SelectIdentities is the beginning of a query whose rows ScanIdentity reads.
const SelectIdentities = `SELECT ` + IdentityColumns + ` FROM identities `

// IdentityArgs returns the values of IdentityColumns.
func IdentityArgs(i *fleet.Identity) []any {
	return []any{i.Principal, i.Source, i.SubjectID, i.CreatedAt, GroupsArg(i.Groups)}
}

// ScanIdentity returns the identity of a row of SelectIdentities.
func ScanIdentity(row Scanner) (*fleet.Identity, error) {
	var i fleet.Identity
	var groups string
	err := row.Scan(&i.Principal, &i.Source, &i.SubjectID, (*Time)(&i.CreatedAt), &groups)
	if err == nil && groups != "" {
		err = json.Unmarshal([]byte(groups), &i.Groups)
	}
	return &i, err
}

// GroupsArg returns the value of the column member_of.
func GroupsArg(groups []string) string {
	if len(groups) == 0 {
		return ""
	}
	b, _ := json.Marshal(groups) // a list of texts can always be encoded
	return string(b)
}
