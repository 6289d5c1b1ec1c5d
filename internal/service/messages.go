package service

import (
	"context"

	"fleet/internal/fleet"
)

// SendMessage sends a follow-up to the agent's running task. It waits until the agent has received the message, at most
// state.Config.MessageWait. The returned text says whether the agent has received it. An agent that cannot accept a message now gets
// it later; unless it is stopped, its task does not end before that. The error is NO_RUNNING_TASK if the agent has no task or
// its task is being stopped, AGENT_OFFLINE if its workspace does not run, and UNIMPLEMENTED if it accepts no messages while it works.
func (s *Service) SendMessage(ctx context.Context, ref, message, requestID string) (*fleet.Task, string, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, "", err
	}
	if err := checkText(fleet.ReasonInvalidArgument, "message", "the message", message); err != nil {
		return nil, "", err
	}
	c := Call{Method: "SendTaskMessage", RequestID: requestID, Body: []string{ref, message}}
	newID := s.cfg.NewID()
	id := func(t *fleet.Task) string {
		if requestID == "" {
			return newID
		}
		return p.Name + "/" + t.ID + "/" + requestID // the same for a repeat
	}
	task, err := s.insertMessage(ctx, p, c, ref, id, message)
	if err != nil {
		return nil, "", err
	}
	m, err := s.awaitMessage(ctx, id(task))
	switch {
	case err != nil:
		return nil, "", err
	case m == nil: // sent by an old version, which did not store messages
	case m.RefusalReason == fleet.ReasonNoRunningTask:
		return nil, "", fleet.Errorf(m.RefusalReason, "%s", m.RefusalText).With("agent_name", task.AgentName)
	case m.RefusalReason != "":
		return nil, "", fleet.Errorf(m.RefusalReason, "%s", m.RefusalText)
	case m.Open():
		return task, "The message is stored: the agent gets it as soon as it can accept it, if its task is still running then", nil
	}
	return task, "Message sent to the running task", nil
}

// insertMessage puts the message into the store, where the worker of the agent finds it, and returns the agent's task. id returns
// the id of the message to a task. A message whose id is in the store already is not added again.
func (s *Service) insertMessage(ctx context.Context, p fleet.Principal, c Call, ref string, id func(*fleet.Task) string, message string) (*fleet.Task, error) {
	byAgent := p.AgentUID != ""
	ctx, _, err := s.resolveCaller(ctx, p, &c)
	if err != nil {
		return nil, err
	}
	v, _, err := s.agent(ctx, ref, fleet.AccessRun)
	c.Refusal = err
	return s.onceTask(ctx, c, func(tx fleet.Tx, p fleet.Principal) (*fleet.Task, error) {
		v, err := agentForUpdate(tx, p, v, fleet.AccessRun)
		if err != nil {
			return nil, err
		}
		a, task := &v.Agent, v.Task
		if byAgent {
			if err := requireDescendant(tx, p, v, ref); err != nil {
				return nil, err
			}
		}
		if err := plannedAgentFrom(ctx).checkTask(v); err != nil {
			return nil, err
		}
		if err := s.checkMessage(p, v); err != nil {
			return nil, err
		}
		if known, err := fleet.First(tx.Messages(fleet.MessageFilter{ID: id(task)})); err != nil || known != nil { // a repeated call whose request id the store no longer remembers
			return task, err
		}
		if err := admit(ctx, s.Limits(), tx, p, a.Owner, increase{bytes: len(message), project: a.Project}); err != nil {
			return nil, err
		}
		now := s.now()
		if err := tx.Insert(&fleet.Message{ID: id(task), TaskID: task.ID, Text: message, CreatedAt: now}); err != nil {
			return nil, err
		}
		if task.DispatchedAt.IsZero() && task.Try == 0 { // the dispatch appends this event, after the event of the task's start
			return task, nil
		}
		return task, tx.Append(task.Event(fleet.EventTaskMessage, now, message))
	})
}

// checkMessage returns why p cannot send a message to the task of the agent; nil if p can.
func (s *Service) checkMessage(p fleet.Principal, v *fleet.AgentView) error {
	a := &v.Agent
	if err := s.checkConfined(p, a); err != nil {
		return err
	}
	switch {
	case v.Task == nil:
		return errNoRunningTask(v)
	case v.Status() != fleet.StatusBusy:
		return errAgentOffline(v)
	case !v.Task.StopRequestedAt.IsZero():
		return fleet.Errorf(fleet.ReasonNoRunningTask, "the task of agent %q is being stopped: wait for that, then start a new task", a.Name).With("agent_name", a.Name)
	}
	return s.places.Of(a).Available()
}

// awaitMessage waits until the message has been delivered or refused, at most state.Config.MessageWait, and returns it. It returns nil
// if the store does not have the message.
func (s *Service) awaitMessage(ctx context.Context, id string) (m *fleet.Message, err error) {
	err = s.await(ctx, s.cfg.MessageWait, func() (bool, error) {
		m, err = view(ctx, s.store, func(tx fleet.ReadTx) (*fleet.Message, error) {
			return fleet.First(tx.Messages(fleet.MessageFilter{ID: id}))
		})
		return m == nil || !m.Open(), err
	})
	return m, err
}
