package record

import "fleet/internal/fleet"

// SessionColumns are the columns of sessions that a write sets. SessionArgs returns their values in the same order.
const SessionColumns = `toolset, owner, name, key, agent, source, agent_uid, messages, created_at, used_at, closed_at, close_reason`

// SelectSessions is the beginning of a query whose rows ScanSession reads.
const SelectSessions = `SELECT id, ` + SessionColumns + `, revision FROM sessions `

// SessionArgs returns the values of SessionColumns.
func SessionArgs(s *fleet.Session) []any {
	return []any{
		string(s.Toolset), s.Owner, s.Name, s.Key, s.Agent, s.Source, s.AgentUID, s.Messages, s.CreatedAt,
		s.UsedAt, Maybe(s.ClosedAt), s.CloseReason,
	}
}

// ScanSession returns the session of a row of SelectSessions.
func ScanSession(row Scanner) (*fleet.Session, error) {
	var s fleet.Session
	return &s, row.Scan(&s.ID, (*string)(&s.Toolset), &s.Owner, &s.Name, &s.Key, &s.Agent, &s.Source, &s.AgentUID, &s.Messages,
		(*Time)(&s.CreatedAt), (*Time)(&s.UsedAt), (*Time)(&s.ClosedAt), &s.CloseReason, &s.Revision)
}
