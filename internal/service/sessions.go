package service

import (
	"context"
	"time"

	"fleet/internal/fleet"
)

// SessionView is a session with its agent, and the agent's active task.
type SessionView struct {
	*fleet.Session
	Agent      *fleet.Agent // nil if the store no longer has it
	ActiveTask *fleet.Task  // the agent's active task, perhaps of another session or of none; nil if it has none
}

// Turn returns the running turn of the session; nil if there is none.
func (v *SessionView) Turn() *fleet.Task {
	if v.ActiveTask == nil || v.ActiveTask.SessionID != v.ID {
		return nil
	}
	return v.ActiveTask
}

// readSessionView reads the agent and the active task of the session.
func readSessionView(tx fleet.ReadTx, x *fleet.Session) (v *SessionView, err error) {
	v = &SessionView{Session: x}
	if v.Agent, err = tx.Agent(x.AgentUID); err != nil {
		return nil, err
	}
	v.ActiveTask, err = tx.RunningTask(x.AgentUID)
	return v, err
}

// Session returns the toolset's session with the id, open or closed. The error is SESSION_NOT_FOUND if there is none that the
// caller may see.
func (s *Service) Session(ctx context.Context, toolset fleet.Toolset, id string) (*SessionView, error) {
	return viewAs(ctx, s.store, func(tx fleet.ReadTx, p fleet.Principal) (*SessionView, error) {
		x, err := tx.Session(fleet.SessionKey{ID: id})
		if err != nil {
			return nil, err
		}
		if x == nil || x.Toolset != toolset || !p.OwnsAll(x.Owner) {
			return nil, errSessionNotFound(id)
		}
		return readSessionView(tx, x)
	})
}

func errSessionNotFound(id string) *fleet.Error {
	id = fleet.Shorten(id, 60)
	return fleet.Errorf(fleet.ReasonSessionNotFound, "there is no session %q", id).Next("{list_agent_sessions} shows the open ones, and {create_agent_session} begins one").
		With("agent_session_id", id)
}

// SessionClosedError returns the error of a call about a closed session.
func SessionClosedError(x *fleet.Session) *fleet.Error {
	return fleet.Errorf(fleet.ReasonSessionNotFound, "the session %q is closed: %s", x.ID, x.CloseReason).Next("{create_agent_session} begins another one").
		With("agent_session_id", x.ID).With("close_reason", x.CloseReason)
}

// Sessions returns the caller's open sessions of the toolset, most recently used first.
func (s *Service) Sessions(ctx context.Context, toolset fleet.Toolset) ([]*SessionView, error) {
	return viewAs(ctx, s.store, func(tx fleet.ReadTx, p fleet.Principal) ([]*SessionView, error) {
		return readSessionViews(tx, toolset, p.Name)
	})
}

// readSessionViews returns the open sessions of the owner. An empty owner means all owners.
func readSessionViews(tx fleet.ReadTx, toolset fleet.Toolset, owner string) (all []*SessionView, err error) {
	open, err := tx.Sessions(toolset, owner)
	for _, x := range open {
		v, err := readSessionView(tx, x)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, err
}

// SessionByKey returns the caller's open session with the key; nil if there is none.
func (s *Service) SessionByKey(ctx context.Context, toolset fleet.Toolset, key string) (*SessionView, error) {
	return viewAs(ctx, s.store, func(tx fleet.ReadTx, p fleet.Principal) (*SessionView, error) {
		x, err := tx.Session(fleet.SessionKey{Toolset: toolset, Owner: p.Name, Key: key})
		if err != nil || x == nil {
			return nil, err
		}
		return readSessionView(tx, x)
	})
}

// SessionTasks returns the last turns of a session, at most limit, oldest first. The error is SESSION_NOT_FOUND if the caller may
// not see the session.
func (s *Service) SessionTasks(ctx context.Context, id string, limit int) ([]*fleet.Task, error) {
	return viewAs(ctx, s.store, func(tx fleet.ReadTx, p fleet.Principal) ([]*fleet.Task, error) {
		x, err := tx.Session(fleet.SessionKey{ID: id})
		if err != nil {
			return nil, err
		}
		if x == nil || !p.OwnsAll(x.Owner) {
			return nil, errSessionNotFound(id)
		}
		return tx.SessionTasks(id, limit)
	})
}

// SessionRequest describes a session to open. Its agent exists, or is launched for it.
type SessionRequest struct {
	Session fleet.Session  // AgentUID names the session's agent, unless Launch is set
	Launch  *LaunchRequest // launches the session's agent, with the first turn if it has a prompt; nil for an existing agent
	// Call identifies the request. It is not used if Launch is set, because a LaunchRequest identifies itself.
	Call Call
	// Max limits the owner's open sessions of the toolset; 0 means no limit.
	Max int
}

// OpenSession opens a session. If its agent is launched with a task, that task is the first turn; otherwise turn is nil. A repeated
// request returns the same session and turn. The error is LIMIT_REACHED if the owner has too many open sessions, and SESSION_EXISTS if
// the owner has an open session with the key.
func (s *Service) OpenSession(ctx context.Context, r SessionRequest) (x *fleet.Session, turn *fleet.Task, err error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, nil, err
	}
	insert := func(tx fleet.Tx, agentUID string) error {
		open, err := tx.Sessions(r.Session.Toolset, r.Session.Owner)
		if err != nil {
			return err
		}
		if r.Max > 0 && len(open) >= r.Max {
			return fleet.Errorf(fleet.ReasonLimitReached, "you have %d open sessions, which is the limit", r.Max).Next("close one with {close_agent_session}").
				AtLimit("sessions", int64(len(open)), int64(r.Max)).After(fleet.LimitRetryAfter)
		}
		c := r.Session
		c.AgentUID = agentUID
		x = &c
		return tx.Insert(x)
	}
	var result CallResult
	var repeated bool
	if r.Launch == nil {
		result, repeated, err = s.Once(ctx, r.Call, func(tx fleet.Tx, _ fleet.Principal) (CallResult, error) {
			return CallResult{AgentUID: r.Session.AgentUID, ObjectID: r.Session.ID}, insert(tx, r.Session.AgentUID)
		})
	} else {
		var v *fleet.AgentView
		v, result, repeated, err = s.launch(ctx, p, *r.Launch, func(tx fleet.Tx, v *fleet.AgentView) (CallResult, error) {
			result := CallResult{AgentUID: v.UID, ObjectID: r.Session.ID}
			if v.Task != nil {
				result.ObjectID = v.Task.ID
			}
			return result, insert(tx, v.UID)
		})
		if v != nil {
			turn = v.Task
		}
	}
	if err == nil && repeated {
		return s.earlierSession(ctx, result)
	}
	return x, turn, err
}

// earlierSession returns the session that the earlier call with the result opened, and its first turn; nil if it began without a
// turn. The error is TASK_NOT_FOUND if that turn was deleted meanwhile.
func (s *Service) earlierSession(ctx context.Context, result CallResult) (x *fleet.Session, turn *fleet.Task, err error) {
	err = s.store.View(ctx, func(tx fleet.ReadTx) error {
		if x, err = tx.Session(fleet.SessionKey{ID: result.ObjectID}); err != nil || x != nil {
			return err
		}
		if turn, err = startedTask(tx, result); err == nil {
			x, err = tx.Session(fleet.SessionKey{ID: turn.SessionID})
		}
		return err
	})
	return x, turn, err
}

// EarlierSession returns the session that the same call opened before; nil if the call is new.
func (s *Service) EarlierSession(ctx context.Context, c Call) (*fleet.Session, error) {
	result, repeated, err := s.EarlierResult(ctx, c)
	if err != nil || !repeated {
		return nil, err
	}
	x, _, err := s.earlierSession(ctx, result)
	return x, err
}

// SessionMessage describes a turn that counts as a message of its session.
type SessionMessage struct {
	Max    int       // maximum number of messages of the session; 0 means no limit
	At     time.Time // when the message was sent, by the toolset's clock
	Source string    // replaces the session's source; empty keeps it
}

// countMessage counts a message of the session of the turn, in the transaction that begins the turn. The error is SESSION_NOT_FOUND if
// the session is closed, and LIMIT_REACHED if it has m.Max messages.
func countMessage(tx fleet.Tx, turn *fleet.Task, m SessionMessage) error {
	x, err := tx.Session(fleet.SessionKey{ID: turn.SessionID})
	switch {
	case err != nil:
		return err
	case x == nil:
		return errSessionNotFound(turn.SessionID)
	case !x.ClosedAt.IsZero():
		return SessionClosedError(x)
	case m.Max > 0 && x.Turns >= m.Max:
		return fleet.Errorf(fleet.ReasonLimitReached, "the session has %d messages, which is the limit: begin another session", x.Turns).
			AtLimit("messages", int64(x.Turns), int64(m.Max))
	}
	if x.Turns == 0 {
		x.Title = turn.Title()
	}
	x.Turns++
	x.UsedAt = m.At
	if m.Source != "" {
		x.Source = m.Source
	}
	return tx.Update(x)
}

// CloseSession closes the session for the reason, ends its turn, and deletes its agent unless the agent belongs to
// ToolsetFleet. An interrupted call can be repeated.
func (s *Service) CloseSession(ctx context.Context, x *fleet.Session, reason string) error {
	_, err := s.closeSession(ctx, x, reason, func(*SessionView) bool { return true })
	return err
}

// CloseUnused does the same as CloseSession, unless the session has a running turn or was used after x was read. closed reports
// whether the session is closed now.
func (s *Service) CloseUnused(ctx context.Context, x *fleet.Session, reason string) (closed bool, err error) {
	return s.closeSession(ctx, x, reason, func(current *SessionView) bool { return current.Turn() == nil && current.UsedAt.Equal(x.UsedAt) })
}

// closeSession does the same as CloseSession if the session is closed already, or if condition returns true for the open session as the
// transaction reads it. closed reports whether the session is closed now.
func (s *Service) closeSession(ctx context.Context, x *fleet.Session, reason string, condition func(*SessionView) bool) (closed bool, err error) {
	var turn *fleet.Task
	var a *fleet.Agent
	err = s.store.Update(ctx, func(tx fleet.Tx) error {
		turn, a, closed = nil, nil, false
		current, err := tx.Session(fleet.SessionKey{ID: x.ID})
		if err != nil || current == nil {
			return err
		}
		v, err := readSessionView(tx, current)
		if err != nil {
			return err
		}
		if current.ClosedAt.IsZero() && !condition(v) {
			return nil
		}
		turn, a, closed = v.Turn(), v.Agent, true
		if !current.ClosedAt.IsZero() {
			return nil
		}
		current.ClosedAt, current.CloseReason = s.now(), reason
		if err := tx.Update(current); err != nil || a == nil {
			return err
		}
		e := a.Event(fleet.EventAgentChanged, current.ClosedAt, "session "+x.ID+" was closed: "+reason)
		e.Owner, e.Status = x.Owner, ""
		return tx.Append(e)
	})
	if err != nil || a == nil {
		return closed, err
	}
	// Whoever may close a session may end its turn, even if the agent belongs to somebody else.
	ctx = fleet.WithPrincipal(ctx, fleet.Principal{Name: x.Owner, Scope: fleet.ScopeAdmin})
	if a.Toolset == fleet.ToolsetFleet {
		if turn == nil {
			return closed, nil
		}
		return closed, s.RequestTaskStop(ctx, turn.ID)
	}
	if turn != nil {
		if _, err := s.StopByUID(ctx, a.UID); err != nil {
			return closed, err
		}
	}
	return closed, s.RemoveAgent(ctx, a.UID)
}

// AllSessions returns the toolset's open sessions of all owners. orphans are the toolset's existing agents that belong to none of
// these sessions and are not being deleted. AllSessions checks no rights: the toolset's housekeeping calls it.
func (s *Service) AllSessions(ctx context.Context, toolset fleet.Toolset) (open []*SessionView, orphans []*fleet.AgentView, err error) {
	if err := s.snap.Refresh(ctx); err != nil {
		return nil, nil, err
	}
	agents := s.snap.All() // before the sessions are read, so that no agent of a new session seems to have none
	err = s.store.View(ctx, func(tx fleet.ReadTx) error {
		if open, err = readSessionViews(tx, toolset, ""); err != nil {
			return err
		}
		inSession := map[string]bool{}
		for _, v := range open {
			inSession[v.AgentUID] = true
		}
		orphans = nil
		for _, v := range agents {
			if v.Toolset == toolset && !inSession[v.UID] && v.Desired != fleet.DesiredDeleted {
				orphans = append(orphans, v)
			}
		}
		return nil
	})
	return open, orphans, err
}
