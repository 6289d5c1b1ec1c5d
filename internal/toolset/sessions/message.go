package sessions

import (
	"context"
	"errors"
	"strings"

	"fleet/internal/fleet"
	"fleet/internal/service"
	"fleet/internal/toolset/conversation"
)

// Send sends a message to the agent of a session and waits for the answer. If sink is not nil, it receives what the
// agent does until then. If sink fails or ctx ends, the caller has given up, and the turn is interrupted; see
// removeWaitingCall. Send does not wait if the call is detached (fleet.Detached).
func (s *Service) Send(ctx context.Context, id, message, requestID string, sink func(Content) error) (*Answer, error) {
	startedAt := s.cfg.Now()
	if _, err := fleet.PrincipalFrom(ctx); err != nil {
		return nil, err
	}
	if err := checkMessage(message); err != nil { // first, since it does not depend on the session
		return nil, err
	}
	if err := service.CheckRequestID(requestID); err != nil {
		return nil, err
	}
	x, err := s.sessionForMessage(ctx, id, requestID)
	if err != nil {
		return nil, err
	}
	leave, err := s.turns.Take(ctx, id, 0)
	if errors.Is(err, conversation.ErrFull) {
		err = fleet.Errorf(fleet.ReasonLimitReached,
			"%d messages already wait for their turn in the session %q: send this message when they are answered", s.cfg.MaxWaiting, fleet.Shorten(id, 60)).
			AtLimit("waiting", int64(s.cfg.MaxWaiting), int64(s.cfg.MaxWaiting)).After(fleet.BusyRetryAfter)
	}
	if err != nil {
		return nil, err
	}
	defer leave()
	t, err := s.startTurn(ctx, service.TurnRequest{
		Method: "SendMessage", AgentUID: x.AgentUID, Prompt: message, Timeout: s.cfg.TurnTimeout, SessionID: id, RequestID: requestID,
		Message: &service.SessionMessage{Max: s.cfg.MaxMessages, At: s.now()},
	})
	if fleet.ReasonOf(err) == fleet.ReasonAgentOffline {
		if _, e := s.sessionForMessage(ctx, id, ""); e != nil { // the agent was deleted because the session was closed
			return nil, e
		}
	}
	if err != nil {
		return nil, err
	}
	if fleet.Detached(ctx) {
		return &Answer{TaskID: t.ID}, s.core.Detach(ctx, t.ID)
	}
	return s.answer(ctx, t, requestID, startedAt, sink)
}

// checkMessage refuses messages that no agent accepts.
func checkMessage(message string) error {
	switch {
	case strings.TrimSpace(message) == "":
		return fleet.Invalid(fleet.ReasonTaskRequired, "message", "the message is empty: say something to the agent")
	case len(message) > fleet.MaxText:
		return fleet.InvalidField("message", "the message has %d bytes, and the limit is %d: shorten the message", len(message), fleet.MaxText)
	case strings.ContainsRune(message, 0):
		return fleet.InvalidField("message", "the message contains a NUL character, which agents cannot receive: remove the character")
	}
	return nil
}

// sessionForMessage returns the session if it is open, otherwise an error. It first closes a session that was idle for too
// long. If requestID is set, it returns a closed session too, because the same message may have been answered before.
func (s *Service) sessionForMessage(ctx context.Context, id, requestID string) (*fleet.Session, error) {
	v, err := s.session(ctx, id)
	if err != nil {
		return nil, err
	}
	x := v.Session
	if requestID != "" && !x.ClosedAt.IsZero() {
		return x, nil
	}
	if x.ClosedAt.IsZero() && s.isIdle(x) && v.ActiveTask == nil && !s.turns.InProgress(id) {
		closed, err := s.closeUnused(ctx, x, s.idleReason())
		if err != nil {
			return nil, err
		}
		if closed {
			x.ClosedAt, x.CloseReason = s.now(), s.idleReason()
		}
	}
	if !x.ClosedAt.IsZero() {
		return nil, service.SessionClosedError(x)
	}
	return x, nil
}

// startTurn begins a turn and returns its task. If the agent works on another task, for example another caller's, startTurn first
// waits for the end of that task.
func (s *Service) startTurn(ctx context.Context, r service.TurnRequest) (*fleet.Task, error) {
	for {
		t, err := s.core.StartTurn(ctx, r)
		busyErr, ok := errors.AsType[*fleet.Error](err)
		if !ok || busyErr.Reason != fleet.ReasonAgentBusy || busyErr.Metadata["task_id"] == "" {
			return t, err
		}
		if _, err := s.core.FollowTask(ctx, busyErr.Metadata["task_id"], 0, nil); err != nil {
			return nil, err
		}
	}
}

// Invoke sends one message to an agent, outside any session, and waits for the answer. sink is used as in Send. Like Send,
// Invoke does not wait if the call is detached. If the caller gives up, it interrupts the turn at once.
func (s *Service) Invoke(ctx context.Context, agent, message, requestID string, location Location, sink func(Content) error) (*Answer, error) {
	startedAt := s.cfg.Now()
	if _, err := fleet.PrincipalFrom(ctx); err != nil {
		return nil, err
	}
	if err := checkMessage(message); err != nil {
		return nil, err
	}
	f, err := s.findAgent(ctx, agent)
	if err != nil {
		return nil, err
	}
	if f.definition != nil {
		if err := s.checkDriver(); err != nil {
			return nil, err
		}
	}
	var t *fleet.Task
	if f.agent != nil {
		if err := location.checkUnset(); err != nil {
			return nil, err
		}
		t, err = s.startTurn(ctx, service.TurnRequest{
			Method: "InvokeAgent", AgentUID: f.agent.UID, Prompt: message, Timeout: s.cfg.TurnTimeout, RequestID: requestID,
		})
	} else {
		t, err = s.launchForMessage(ctx, f.definition, message, requestID, location, location.requestBody(agent, message))
	}
	if err != nil {
		return nil, err
	}
	if fleet.Detached(ctx) {
		return &Answer{TaskID: t.ID}, s.core.Detach(ctx, t.ID)
	}
	// Without a request id, removeWaitingCall interrupts the turn at once. Nobody could interrupt it later, since it has no session.
	return s.answer(ctx, t, "", startedAt, sink)
}

// launchForMessage starts an agent from the definition on one message and returns its task. body becomes
// LaunchRequest.Body. The core deletes the agent after the task.
func (s *Service) launchForMessage(ctx context.Context, d *fleet.Definition, message, requestID string, location Location, body []string) (*fleet.Task, error) {
	l, err := s.launchRequest("InvokeAgent", d, "invoke", location)
	if err != nil {
		return nil, err
	}
	l.OneTask, l.Prompt, l.Timeout, l.RequestID, l.Body = true, message, s.cfg.TurnTimeout, requestID, body
	v, err := s.core.Launch(ctx, l)
	if err != nil {
		return nil, err
	}
	return v.Task, nil
}
