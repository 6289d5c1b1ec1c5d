package postgres

import (
	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

const (
	openSessions  = record.SelectSessions + `WHERE toolset = $1 AND closed_at IS NULL`
	lastUsedFirst = ` ORDER BY used_at DESC, n DESC`
)

var (
	insertSession = numbered(`INSERT INTO sessions (` + record.SessionColumns + `, id, revision) VALUES (` + record.Marks(record.SessionColumns) + `, ?, 1)`)
	updateSession = numbered(`UPDATE sessions SET (` + record.SessionColumns + `) = ROW (` + record.Marks(record.SessionColumns) + `), revision = revision + 1
		WHERE id = ? RETURNING revision`)
)

func (t *readTx) Session(k fleet.SessionKey) (*fleet.Session, error) {
	if k.ID != "" {
		t.lock(lockSession, k.ID)
		return first(t, record.ScanSession, record.SelectSessions+`WHERE id = $1`, k.ID)
	}
	t.lock(lockKeyed, joined(string(k.Toolset), k.Owner, k.Key))
	return fleet.First(t.sessions(openSessions+` AND owner = $2 AND key <> '' AND key = $3`, string(k.Toolset), k.Owner, k.Key))
}

func (t *readTx) sessions(query string, args ...any) ([]*fleet.Session, error) {
	return settled(t, lockSession, func(s *fleet.Session) []string { return []string{s.ID} }, func() ([]*fleet.Session, error) {
		return all(t, record.ScanSession, query, args...)
	})
}

func (t *readTx) Sessions(toolset fleet.Toolset, owner string) ([]*fleet.Session, error) {
	if owner == "" {
		return all(t, record.ScanSession, openSessions+lastUsedFirst, string(toolset))
	}
	t.lock(lockSessions, joined(string(toolset), owner))
	return t.sessions(openSessions+` AND owner = $2`+lastUsedFirst, string(toolset), owner)
}

func (t *tx) insertSession(s *fleet.Session) error {
	if err := t.grow(); err != nil {
		return err
	}
	t.lock(lockSession, s.ID)
	t.lock(lockSessions, joined(string(s.Toolset), s.Owner))
	t.lock(lockKeyed, joined(string(s.Toolset), s.Owner, s.Key))
	if err := t.exec(insertSession, append(record.SessionArgs(s), s.ID)...); err != nil {
		return t.failed(sessionError("add", s, err))
	}
	s.Revision = 1
	return nil
}

func (t *tx) updateSession(s *fleet.Session) error {
	t.lock(lockSession, s.ID)
	revision, err := t.revise(updateSession, append(record.SessionArgs(s), s.ID)...)
	if err != nil {
		return t.failed(sessionError("write", s, err))
	}
	s.Revision = revision
	return nil
}

func sessionError(act string, s *fleet.Session, err error) error {
	return record.SessionError(act, s, err, taken(err, "sessions_key"))
}
