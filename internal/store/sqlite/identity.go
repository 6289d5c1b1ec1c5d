package sqlite

import (
	"fmt"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

var updateGroups = `UPDATE identities SET member_of = ? WHERE principal = ?`

var insertIdentity = `INSERT INTO identities (` + record.IdentityColumns + `) VALUES (` + record.Marks(record.IdentityColumns) + `)`

func (t *readTx) Identity(k fleet.IdentityKey) (*fleet.Identity, error) {
	if k.Principal != "" {
		return first(t, record.ScanIdentity, record.SelectIdentities+`WHERE principal = ?`, k.Principal)
	}
	return first(t, record.ScanIdentity, record.SelectIdentities+`WHERE source = ? AND subject_id = ?`, k.Source, k.SubjectID)
}

func (t *tx) insertIdentity(i *fleet.Identity) error {
	if _, err := t.exec(insertIdentity, record.IdentityArgs(i)...); err != nil {
		return t.failed(fmt.Errorf("add the identity of %q: %w", i.Principal, err))
	}
	return nil
}

func (t *tx) updateGroups(i *fleet.Identity) error {
	if _, err := t.exec(updateGroups, record.GroupsArg(i.Groups), i.Principal); err != nil {
		return t.failed(fmt.Errorf("write the groups of %q: %w", i.Principal, err))
	}
	return nil
}
