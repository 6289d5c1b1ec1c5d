package sqlite

import (
	"database/sql"
	"fmt"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

const (
	identityColumns = `principal, source, subject_id, created_at`
	selectIdentity  = `SELECT ` + identityColumns + ` FROM identities `
)

var insertIdentity = `INSERT INTO identities (` + identityColumns + `) VALUES (` + record.Marks(identityColumns) + `)`

func (t *readTx) Identity(source, subjectID string) (*fleet.Identity, error) {
	return first(t, scanIdentity, selectIdentity+`WHERE source = ? AND subject_id = ?`, source, subjectID)
}

func (t *readTx) IdentityOf(principal string) (*fleet.Identity, error) {
	return first(t, scanIdentity, selectIdentity+`WHERE principal = ?`, principal)
}

func (t *tx) InsertIdentity(i *fleet.Identity) error {
	if _, err := t.exec(insertIdentity, i.Principal, i.Source, i.SubjectID, micros(i.CreatedAt)); err != nil {
		return t.failed(fmt.Errorf("add the identity of %q: %w", i.Principal, err))
	}
	return nil
}

func scanIdentity(row scanner) (*fleet.Identity, error) {
	var (
		i       fleet.Identity
		created sql.NullInt64
	)
	err := row.Scan(&i.Principal, &i.Source, &i.SubjectID, &created)
	i.CreatedAt = timeOf(created)
	return &i, err
}
