package record

import (
	"encoding/json"
	"fmt"

	"fleet/internal/fleet"
)

const identityColumns = `principal, source, subject_id, created_at, member_of`

const (
	selectIdentities = `SELECT ` + identityColumns + ` FROM identities `
	updateGroups     = `UPDATE identities SET member_of = ? WHERE principal = ?`
)

var insertIdentity = insertStatement("identities", identityColumns)

// Identity returns the identity with the key, see fleet.ReadTx.
func (t ReadTx) Identity(k fleet.IdentityKey) (*fleet.Identity, error) {
	if k.Principal != "" {
		t.DB.Lock(lockPrincipal, k.Principal)
		return QueryFirst(t.DB, scanIdentity, selectIdentities+`WHERE principal = ?`, k.Principal)
	}
	t.DB.Lock(lockSubject, joinKey(k.Source, k.SubjectID))
	return QueryFirst(t.DB, scanIdentity, selectIdentities+`WHERE source = ? AND subject_id = ?`, k.Source, k.SubjectID)
}

func (t Tx) insertIdentity(i *fleet.Identity) error {
	t.DB.Lock(lockSubject, joinKey(i.Source, i.SubjectID))
	t.DB.Lock(lockPrincipal, i.Principal)
	return t.DB.Exec(func(err error) error { return fmt.Errorf("add the identity of %q: %w", i.Principal, err) },
		insertIdentity, i.Principal, i.Source, i.SubjectID, i.CreatedAt, groupsArg(i.Groups))
}

func (t Tx) updateGroups(i *fleet.Identity) error {
	t.DB.Lock(lockSubject, joinKey(i.Source, i.SubjectID))
	t.DB.Lock(lockPrincipal, i.Principal)
	return t.DB.Exec(func(err error) error { return fmt.Errorf("write the groups of %q: %w", i.Principal, err) },
		updateGroups, groupsArg(i.Groups), i.Principal)
}

func scanIdentity(row Scanner) (*fleet.Identity, error) {
	var i fleet.Identity
	var groups string
	err := row.Scan(&i.Principal, &i.Source, &i.SubjectID, (*TimeColumn)(&i.CreatedAt), &groups)
	if err == nil && groups != "" {
		err = json.Unmarshal([]byte(groups), &i.Groups)
	}
	return &i, err
}

// groupsArg returns the groups as JSON, or "" if there are none.
func groupsArg(groups []string) string {
	if len(groups) == 0 {
		return ""
	}
	b, _ := json.Marshal(groups) // a list of texts can always be encoded
	return string(b)
}
