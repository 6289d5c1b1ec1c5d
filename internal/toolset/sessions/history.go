package sessions

import (
	"context"
	"time"

	"fleet/internal/fleet"
)

// Message is one message of a session.
type Message struct {
	Role    string // user or assistant
	Text    string
	Time    time.Time
	TaskID  string
	Status  fleet.TaskStatus // how the task ended; only for an assistant's message
	Problem string           // why there is no answer; empty if there is one
}

// These are the maximum and the default of the limit of History, in messages.
const (
	MaxHistory     = 2000
	defaultHistory = 100
)

// History returns the last messages of a session of the caller, oldest first. limit is their maximum number, from 1 to
// MaxHistory; nil means defaultHistory.
func (s *Service) History(ctx context.Context, id string, limit *int) ([]Message, error) {
	if _, err := s.session(ctx, id); err != nil {
		return nil, err
	}
	n := defaultHistory
	if limit != nil {
		n = *limit
	}
	if n < 1 || n > MaxHistory {
		return nil, fleet.InvalidField("limit", "limit is %d: give 1 to %d", n, MaxHistory)
	}
	tasks, err := s.core.SessionTasks(ctx, id, n) // each task has two messages, but an active one has only the first
	if err != nil {
		return nil, err
	}
	var all []Message
	for _, t := range tasks {
		all = append(all, Message{Role: "user", Text: t.Description, Time: t.CreatedAt, TaskID: t.ID})
		if t.Active() {
			continue
		}
		m := Message{Role: "assistant", Time: t.EndedAt, TaskID: t.ID, Status: t.Status, Problem: t.Reason}
		if m.Text, err = s.answerText(ctx, t); err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all[max(0, len(all)-n):], nil
}
