package service

import (
	"context"
	"time"

	"fleet/internal/fleet"
)

// TurnRequest describes the next task of an agent.
type TurnRequest struct {
	Method    string // API method, for the request id
	AgentUID  string
	Prompt    string
	Timeout   time.Duration // 0 means state.Config.TaskTimeout
	SessionID string
	RequestID string `json:"-"`
	Body      any    `json:"-"` // see LaunchRequest
	Caller    string `json:"-"` // see LaunchRequest
	// Message, if not nil, counts the prompt as a message of the session.
	Message *SessionMessage `json:"-"`
}

// StartTurn gives the agent its next task and does not wait. An agent whose workspace is still starting gets the task later. The
// error is AGENT_BUSY if the agent has a task, and AGENT_OFFLINE if its workspace neither runs nor will run soon.
func (s *Service) StartTurn(ctx context.Context, r TurnRequest) (*fleet.Task, error) {
	if err := checkText(fleet.ReasonTaskRequired, "message", "the message", r.Prompt); err != nil {
		return nil, err
	}
	c := Call{Method: r.Method, RequestID: r.RequestID, Body: r.Body, Caller: r.Caller}
	if c.Body == nil {
		c.Body = r
	}
	return s.onceTask(ctx, c, func(tx fleet.Tx, p fleet.Principal) (*fleet.Task, error) {
		v, err := changeableAgent(tx, p, r.AgentUID)
		if err != nil {
			return nil, err
		}
		a := &v.Agent
		switch {
		case v.Task != nil:
			return nil, errAgentBusy(a.Name, v.Task)
		case a.Desired != fleet.DesiredRunning || a.State != fleet.StateRunning && !a.State.Moving():
			return nil, errAgentOffline(v)
		}
		if err := admit(ctx, s.Limits(), tx, p, a.Owner, increase{tasks: 1, project: a.Project}); err != nil {
			return nil, err
		}
		if err := s.checkConfined(p, a); err != nil {
			return nil, err
		}
		now := s.now()
		task := s.newTask(ctx, p, a, r.Prompt, r.Timeout, now)
		task.SessionID = r.SessionID
		if err := s.insertTask(tx, p, a, task); err != nil || r.Message == nil {
			return task, err
		}
		return task, countMessage(tx, task, *r.Message)
	})
}
