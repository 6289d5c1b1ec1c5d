package sqlite

import (
	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

const (
	openSessions  = record.SelectSessions + `WHERE toolset = ? AND closed_at IS NULL`
	lastUsedFirst = ` ORDER BY used_at DESC, n DESC`
)

var (
	insertSession = `INSERT INTO sessions (` + record.SessionColumns + `, id, revision) VALUES (` + record.Marks(record.SessionColumns) + `, ?, 1)`
	updateSession = `UPDATE sessions SET (` + record.SessionColumns + `) = (` + record.Marks(record.SessionColumns) + `), revision = revision + 1
		WHERE id = ? RETURNING revision`
)

func (t *readTx) Session(k fleet.SessionKey) (*fleet.Session, error) {
	if k.ID != "" {
		return first(t, record.ScanSession, record.SelectSessions+`WHERE id = ?`, k.ID)
	}
	return first(t, record.ScanSession, openSessions+` AND owner = ? AND key <> '' AND key = ?`, string(k.Toolset), k.Owner, k.Key)
}

func (t *readTx) Sessions(toolset fleet.Toolset, owner string) ([]*fleet.Session, error) {
	if owner == "" {
		return all(t, record.ScanSession, openSessions+lastUsedFirst, string(toolset))
	}
	return all(t, record.ScanSession, openSessions+` AND owner = ?`+lastUsedFirst, string(toolset), owner)
}

func (t *tx) insertSession(s *fleet.Session) error {
	if err := t.grow(); err != nil {
		return err
	}
	if _, err := t.exec(insertSession, append(record.SessionArgs(s), s.ID)...); err != nil {
		return t.failed(sessionError("add", s, err))
	}
	s.Revision = 1
	return nil
}

func (t *tx) updateSession(s *fleet.Session) error {
	revision, err := t.revise(updateSession, append(record.SessionArgs(s), s.ID)...)
	if err != nil {
		return t.failed(sessionError("write", s, err))
	}
	s.Revision = revision
	return nil
}

func sessionError(act string, s *fleet.Session, err error) error {
	return record.SessionError(act, s, err, taken(err, "sessions.toolset"))
}
