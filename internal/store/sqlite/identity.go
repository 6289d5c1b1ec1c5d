package sqlite

import (
	"fmt"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

var updateGroups = `UPDATE identities SET member_of = ? WHERE principal = ?`

var insertIdentity = `INSERT INTO identities (` + record.IdentityColumns + `) VALUES (` + record.Marks(record.IdentityColumns) + `)`

func (t *readTx) Identity(source, subjectID string) (*fleet.Identity, error) {
	return first(t, record.ScanIdentity, record.SelectIdentities+`WHERE source = ? AND subject_id = ?`, source, subjectID)
}

func (t *readTx) IdentityOf(principal string) (*fleet.Identity, error) {
	return first(t, record.ScanIdentity, record.SelectIdentities+`WHERE principal = ?`, principal)
}

func (t *tx) InsertIdentity(i *fleet.Identity) error {
	if _, err := t.exec(insertIdentity, record.IdentityArgs(i)...); err != nil {
		return t.failed(fmt.Errorf("add the identity of %q: %w", i.Principal, err))
	}
	return nil
}

func (t *tx) UpdateGroups(i *fleet.Identity) error {
	if _, err := t.exec(updateGroups, record.GroupsArg(i.Groups), i.Principal); err != nil {
		return t.failed(fmt.Errorf("write the groups of %q: %w", i.Principal, err))
	}
	return nil
}
