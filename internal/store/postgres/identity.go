package postgres

import (
	"fmt"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

const (
	identityColumns = `principal, source, subject_id, created_at`
	selectIdentity  = `SELECT ` + identityColumns + ` FROM identities `
)

var insertIdentity = numbered(`INSERT INTO identities (` + identityColumns + `) VALUES (` + record.Marks(identityColumns) + `)`)

func (t *readTx) Identity(source, subjectID string) (*fleet.Identity, error) {
	t.lock(lockSubject, source+"\n"+subjectID)
	return first(t, scanIdentity, selectIdentity+`WHERE source = $1 AND subject_id = $2`, source, subjectID)
}

func (t *readTx) IdentityOf(principal string) (*fleet.Identity, error) {
	t.lock(lockPrincipal, principal)
	return first(t, scanIdentity, selectIdentity+`WHERE principal = $1`, principal)
}

func (t *tx) InsertIdentity(i *fleet.Identity) error {
	t.lock(lockSubject, i.Source+"\n"+i.SubjectID)
	t.lock(lockPrincipal, i.Principal)
	if err := t.exec(insertIdentity, i.Principal, i.Source, i.SubjectID, i.CreatedAt); err != nil {
		return t.failed(fmt.Errorf("add the identity of %q: %w", i.Principal, err))
	}
	return nil
}

func scanIdentity(row scanner) (*fleet.Identity, error) {
	var (
		i       fleet.Identity
		created *time.Time
	)
	err := row.Scan(&i.Principal, &i.Source, &i.SubjectID, &created)
	i.CreatedAt = timeOf(created)
	return &i, err
}
