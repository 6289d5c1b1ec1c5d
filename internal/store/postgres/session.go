package postgres

import (
	"fmt"
	"time"

	"fleet/internal/fleet"
)

const (
	sessionColumns = `toolset, owner, name, key, agent, source, agent_uid, messages, created_at, used_at, closed_at, close_reason`
	selectSessions = `SELECT id, ` + sessionColumns + `, revision FROM sessions `
	lastUsedFirst  = ` ORDER BY used_at DESC, n DESC`
)

var (
	insertSession = numbered(`INSERT INTO sessions (` + sessionColumns + `, id, revision) VALUES (` + marks(sessionColumns) + `, ?, 1)`)
	updateSession = numbered(`UPDATE sessions SET (` + sessionColumns + `) = ROW (` + marks(sessionColumns) + `), revision = revision + 1
		WHERE id = ? RETURNING revision`)
)

func (t *readTx) Session(id string) (*fleet.Session, error) {
	t.lock(lockSession, id)
	return first(t, scanSession, selectSessions+`WHERE id = $1`, id)
}

func (t *readTx) SessionByKey(toolset fleet.Toolset, owner, key string) (*fleet.Session, error) {
	t.lock(lockKeyed, joined(string(toolset), owner, key))
	got, err := t.sessions(selectSessions+`WHERE toolset = $1 AND owner = $2 AND key <> '' AND key = $3 AND closed_at IS NULL`,
		string(toolset), owner, key)
	if err != nil || len(got) == 0 {
		return nil, err
	}
	return got[0], nil
}

func (t *readTx) sessions(query string, args ...any) ([]*fleet.Session, error) {
	return settled(t, lockSession, func(s *fleet.Session) []string { return []string{s.ID} }, func() ([]*fleet.Session, error) {
		return all(t, scanSession, query, args...)
	})
}

func (t *readTx) Sessions(toolset fleet.Toolset, owner string) ([]*fleet.Session, error) {
	if owner == "" {
		return all(t, scanSession, selectSessions+`WHERE toolset = $1 AND closed_at IS NULL`+lastUsedFirst, string(toolset))
	}
	t.lock(lockSessions, joined(string(toolset), owner))
	return t.sessions(selectSessions+`WHERE toolset = $1 AND owner = $2 AND closed_at IS NULL`+lastUsedFirst, string(toolset), owner)
}

func (t *tx) InsertSession(s *fleet.Session) error {
	if err := t.grow(); err != nil {
		return err
	}
	t.lock(lockSession, s.ID)
	t.lock(lockSessions, joined(string(s.Toolset), s.Owner))
	t.lock(lockKeyed, joined(string(s.Toolset), s.Owner, s.Key))
	if err := t.exec(insertSession, append(sessionArgs(s), s.ID)...); err != nil {
		return t.failed(sessionError("add", s, err))
	}
	s.Revision = 1
	return nil
}

func (t *tx) UpdateSession(s *fleet.Session) error {
	t.lock(lockSession, s.ID)
	revision, err := t.revise(updateSession, append(sessionArgs(s), s.ID)...)
	if err != nil {
		return t.failed(sessionError("write", s, err))
	}
	s.Revision = revision
	return nil
}

func sessionError(act string, s *fleet.Session, err error) error {
	if taken(err, "sessions_key") {
		return fleet.Errorf(fleet.ReasonSessionExists, "an open session with this key already exists").WithCause(err)
	}
	return fmt.Errorf("%s session %s: %w", act, s.ID, err)
}

func sessionArgs(s *fleet.Session) []any {
	return []any{
		string(s.Toolset), s.Owner, s.Name, s.Key, s.Agent, s.Source, s.AgentUID, s.Messages, s.CreatedAt,
		s.UsedAt, maybe(s.ClosedAt), s.CloseReason,
	}
}

func scanSession(row scanner) (*fleet.Session, error) {
	var (
		s                     fleet.Session
		created, used, closed *time.Time
	)
	err := row.Scan(&s.ID, (*string)(&s.Toolset), &s.Owner, &s.Name, &s.Key, &s.Agent, &s.Source, &s.AgentUID, &s.Messages,
		&created, &used, &closed, &s.CloseReason, &s.Revision)
	s.CreatedAt, s.UsedAt, s.ClosedAt = timeOf(created), timeOf(used), timeOf(closed)
	return &s, err
}
