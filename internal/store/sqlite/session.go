package sqlite

import (
	"database/sql"
	"fmt"

	"fleet/internal/fleet"
)

const (
	sessionColumns = `toolset, owner, name, key, agent, source, agent_uid, messages, created_at, used_at, closed_at, close_reason`
	selectSessions = `SELECT id, ` + sessionColumns + `, revision FROM sessions `
	lastUsedFirst  = ` ORDER BY used_at DESC, n DESC`
)

var (
	insertSession = `INSERT INTO sessions (` + sessionColumns + `, id, revision) VALUES (` + marks(sessionColumns) + `, ?, 1)`
	updateSession = `UPDATE sessions SET (` + sessionColumns + `) = (` + marks(sessionColumns) + `), revision = revision + 1
		WHERE id = ? RETURNING revision`
)

func (t *readTx) Session(id string) (*fleet.Session, error) {
	return first(t, scanSession, selectSessions+`WHERE id = ?`, id)
}

func (t *readTx) SessionByKey(toolset fleet.Toolset, owner, key string) (*fleet.Session, error) {
	return first(t, scanSession, selectSessions+`WHERE toolset = ? AND owner = ? AND key <> '' AND key = ? AND closed_at IS NULL`,
		string(toolset), owner, key)
}

func (t *readTx) Sessions(toolset fleet.Toolset, owner string) ([]*fleet.Session, error) {
	if owner == "" {
		return all(t, scanSession, selectSessions+`WHERE toolset = ? AND closed_at IS NULL`+lastUsedFirst, string(toolset))
	}
	return all(t, scanSession, selectSessions+`WHERE toolset = ? AND owner = ? AND closed_at IS NULL`+lastUsedFirst, string(toolset), owner)
}

func (t *tx) InsertSession(s *fleet.Session) error {
	if err := t.grow(); err != nil {
		return err
	}
	if _, err := t.exec(insertSession, append(sessionArgs(s), s.ID)...); err != nil {
		return t.failed(sessionError("add", s, err))
	}
	s.Revision = 1
	return nil
}

func (t *tx) UpdateSession(s *fleet.Session) error {
	revision, err := t.revise(updateSession, append(sessionArgs(s), s.ID)...)
	if err != nil {
		return t.failed(sessionError("write", s, err))
	}
	s.Revision = revision
	return nil
}

func sessionError(act string, s *fleet.Session, err error) error {
	if taken(err, "sessions.toolset") {
		return fleet.Errorf(fleet.ReasonSessionExists, "an open session with this key already exists").WithCause(err)
	}
	return fmt.Errorf("%s session %s: %w", act, s.ID, err)
}

func sessionArgs(s *fleet.Session) []any {
	return []any{
		string(s.Toolset), s.Owner, s.Name, s.Key, s.Agent, s.Source, s.AgentUID, s.Messages, micros(s.CreatedAt),
		micros(s.UsedAt), maybeMicros(s.ClosedAt), s.CloseReason,
	}
}

func scanSession(row scanner) (*fleet.Session, error) {
	var (
		s                     fleet.Session
		created, used, closed sql.NullInt64
	)
	err := row.Scan(&s.ID, (*string)(&s.Toolset), &s.Owner, &s.Name, &s.Key, &s.Agent, &s.Source, &s.AgentUID, &s.Messages,
		&created, &used, &closed, &s.CloseReason, &s.Revision)
	s.CreatedAt, s.UsedAt, s.ClosedAt = timeOf(created), timeOf(used), timeOf(closed)
	return &s, err
}
