package record

import (
	"fmt"

	"fleet/internal/fleet"
)

// sessionColumns are the columns of sessions that a write sets.
const sessionColumns = `toolset, owner, name, key, agent, source, agent_uid, messages, created_at, used_at, closed_at, close_reason, title`

const (
	selectSessions     = `SELECT id, ` + sessionColumns + `, revision FROM sessions `
	selectOpenSessions = selectSessions + `WHERE toolset = ? AND closed_at IS NULL`
	lastUsedFirst      = ` ORDER BY used_at DESC, n DESC`
)

var (
	insertSession = `INSERT INTO sessions (` + sessionColumns + `, id, revision) VALUES (` + Placeholders(sessionColumns) + `, ?, 1)`
	updateSession = `UPDATE sessions SET (` + sessionColumns + `) = (` + Placeholders(sessionColumns) + `), revision = revision + 1
		WHERE id = ? RETURNING revision`
)

// Session returns the session with the key, see fleet.ReadTx.
func (t ReadTx) Session(k fleet.SessionKey) (*fleet.Session, error) {
	if k.ID != "" {
		t.DB.Lock(LockSession, k.ID)
		return QueryFirst(t.DB, scanSession, selectSessions+`WHERE id = ?`, k.ID)
	}
	t.DB.Lock(lockSessionKey, joinKey(string(k.Toolset), k.Owner, k.Key))
	return fleet.First(t.sessions(selectOpenSessions+` AND owner = ? AND key <> '' AND key = ?`, string(k.Toolset), k.Owner, k.Key))
}

// Sessions returns the open sessions of the owner, or of all owners, see fleet.ReadTx.
func (t ReadTx) Sessions(toolset fleet.Toolset, owner string) ([]*fleet.Session, error) {
	if owner == "" {
		return QueryAll(t.DB, scanSession, selectOpenSessions+lastUsedFirst, string(toolset))
	}
	t.DB.Lock(lockSessions, joinKey(string(toolset), owner))
	return t.sessions(selectOpenSessions+` AND owner = ?`+lastUsedFirst, string(toolset), owner)
}

func (t ReadTx) sessions(query string, args ...any) ([]*fleet.Session, error) {
	return ReadLocked(t.DB, LockSession, func(s *fleet.Session) string { return s.ID }, func() ([]*fleet.Session, error) {
		return QueryAll(t.DB, scanSession, query, args...)
	})
}

func (t Tx) insertSession(s *fleet.Session) error {
	if err := t.DB.CheckSpace(); err != nil {
		return err
	}
	t.DB.Lock(LockSession, s.ID)
	t.DB.Lock(lockSessions, joinKey(string(s.Toolset), s.Owner))
	t.DB.Lock(lockSessionKey, joinKey(string(s.Toolset), s.Owner, s.Key))
	s.Revision = 1
	return t.DB.Exec(func(err error) error {
		if t.DB.Violates(err, uniqueSessionKey) {
			return fleet.Errorf(fleet.ReasonSessionExists, "an open session with this key already exists").WithCause(err)
		}
		return fmt.Errorf("add session %s: %w", s.ID, err)
	}, insertSession, append(sessionArgs(s), s.ID)...)
}

func (t Tx) updateSession(s *fleet.Session) error {
	t.DB.Lock(LockSession, s.ID)
	return t.DB.Revise(&s.Revision, func(err error) error { return fmt.Errorf("write session %s: %w", s.ID, err) },
		updateSession, append(sessionArgs(s), s.ID)...)
}

// sessionArgs returns the values of sessionColumns.
func sessionArgs(s *fleet.Session) []any {
	return []any{
		string(s.Toolset), s.Owner, s.Name, s.Key, s.Agent, s.Source, s.AgentUID, s.Turns, s.CreatedAt,
		s.UsedAt, NullTime(s.ClosedAt), s.CloseReason, s.Title,
	}
}

func scanSession(row Scanner) (*fleet.Session, error) {
	var s fleet.Session
	return &s, row.Scan(&s.ID, (*string)(&s.Toolset), &s.Owner, &s.Name, &s.Key, &s.Agent, &s.Source, &s.AgentUID, &s.Turns,
		(*TimeColumn)(&s.CreatedAt), (*TimeColumn)(&s.UsedAt), (*TimeColumn)(&s.ClosedAt), &s.CloseReason, &s.Title, &s.Revision)
}
