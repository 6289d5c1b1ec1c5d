package postgres

import (
	"fmt"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

var updateGroups = `UPDATE identities SET member_of = $1 WHERE principal = $2`

var insertIdentity = numbered(`INSERT INTO identities (` + record.IdentityColumns + `) VALUES (` + record.Marks(record.IdentityColumns) + `)`)

func (t *readTx) Identity(k fleet.IdentityKey) (*fleet.Identity, error) {
	if k.Principal != "" {
		t.lock(lockPrincipal, k.Principal)
		return first(t, record.ScanIdentity, record.SelectIdentities+`WHERE principal = $1`, k.Principal)
	}
	t.lock(lockSubject, k.Source+"\n"+k.SubjectID)
	return first(t, record.ScanIdentity, record.SelectIdentities+`WHERE source = $1 AND subject_id = $2`, k.Source, k.SubjectID)
}

func (t *tx) insertIdentity(i *fleet.Identity) error {
	t.lock(lockSubject, i.Source+"\n"+i.SubjectID)
	t.lock(lockPrincipal, i.Principal)
	if err := t.exec(insertIdentity, record.IdentityArgs(i)...); err != nil {
		return t.failed(fmt.Errorf("add the identity of %q: %w", i.Principal, err))
	}
	return nil
}

func (t *tx) updateGroups(i *fleet.Identity) error {
	t.lock(lockSubject, i.Source+"\n"+i.SubjectID)
	t.lock(lockPrincipal, i.Principal)
	if err := t.exec(updateGroups, record.GroupsArg(i.Groups), i.Principal); err != nil {
		return t.failed(fmt.Errorf("write the groups of %q: %w", i.Principal, err))
	}
	return nil
}
