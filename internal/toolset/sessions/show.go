package sessions

import (
	"context"
	"time"

	"fleet/internal/fleet"
)

// Info describes a session, and whether its agent is working on a message.
type Info struct {
	*fleet.Session
	Working   bool
	Project   string // the project that its agent was given
	Directory string // the directory that its agent works in, if it was given one or a project
}

// Info describes a session, also a closed one.
func (s *Service) Info(ctx context.Context, id string) (*Info, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	var info *Info
	err = s.store.View(ctx, func(tx fleet.ReadTx) error {
		x, err := session(tx, p, id)
		if err == nil {
			info, err = look(tx, x)
		}
		return err
	})
	return info, err
}

func look(tx fleet.ReadTx, x *fleet.Session) (*Info, error) {
	info := &Info{Session: x}
	a, err := tx.Agent(x.AgentUID)
	if err != nil {
		return nil, err
	}
	if a != nil && Source(x.Source) != SourceFleet && a.Config != nil && (a.Project != "" || a.Config.Dir != "") {
		info.Project, info.Directory = a.Project, a.Location
	}
	if !x.ClosedAt.IsZero() {
		return info, nil
	}
	t, err := tx.ActiveTask(x.AgentUID)
	info.Working = t != nil && t.SessionID == x.ID
	return info, err
}

// List returns the caller's open sessions, most recently used first.
func (s *Service) List(ctx context.Context) (all []*Info, err error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	err = s.store.View(ctx, func(tx fleet.ReadTx) error {
		all = nil
		open, err := tx.Sessions(fleet.ToolsetSessions, p.Name)
		for _, x := range open {
			info, e := look(tx, x)
			if e != nil {
				return e
			}
			all = append(all, info)
		}
		return err
	})
	return all, err
}

// Message is one message of a session.
type Message struct {
	Role    string // user or assistant
	Text    string
	Time    time.Time
	TaskID  string
	Status  fleet.TaskStatus // of an assistant's message
	Problem string           // why there is no answer
}

// These limit History, in messages.
const (
	MaxHistory     = 1000
	defaultHistory = 100
)

// History returns the last messages of a session, at most limit, oldest first.
func (s *Service) History(ctx context.Context, id string, limit *int) ([]Message, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	n := defaultHistory
	if limit != nil {
		n = *limit
	}
	var tasks []*fleet.Task
	err = s.store.View(ctx, func(tx fleet.ReadTx) error {
		if _, err := session(tx, p, id); err != nil {
			return err
		}
		if n < 1 || n > MaxHistory {
			return fleet.Invalid(fleet.ReasonInvalidArgument, "limit", "limit is %d: give 1 to %d", n, MaxHistory)
		}
		tasks, err = tx.SessionTasks(id, n) // each task has two messages, the last possibly one
		return err
	})
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
		if m.Text, err = s.text(ctx, t); err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all[max(0, len(all)-n):], nil
}

// Agents lists the agents of the source.
func (s *Service) Agents(ctx context.Context, source Source) ([]Definition, error) {
	if _, err := fleet.PrincipalFrom(ctx); err != nil {
		return nil, err
	}
	var all []Definition
	for _, from := range []struct {
		source Source
		list   func(context.Context) ([]Definition, error)
	}{{SourceFiles, s.catalog.Files}, {SourceStore, s.catalog.Stored}, {SourceFleet, s.fleetAgents}} {
		if source != SourceAll && source != from.source {
			continue
		}
		some, err := from.list(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// fleetAgents returns the caller's agents in the fleet.
func (s *Service) fleetAgents(ctx context.Context) ([]Definition, error) {
	l, err := s.core.ListAgents(ctx, fleet.ListAgentsRequest{})
	if err != nil {
		return nil, err
	}
	all := make([]Definition, len(l.Agents))
	for i, v := range l.Agents {
		all[i] = Definition{Name: v.Name, Description: v.Spec, Source: SourceFleet}
	}
	return all, nil
}

// Pull pulls an agent from a registry.
func (s *Service) Pull(ctx context.Context, reference string) (Pulled, error) {
	if _, err := fleet.PrincipalFrom(ctx); err != nil {
		return Pulled{}, err
	}
	return s.catalog.Pull(ctx, reference)
}

// RemovePulled removes an agent that the caller has pulled.
func (s *Service) RemovePulled(ctx context.Context, reference string) (Pulled, error) {
	if _, err := fleet.PrincipalFrom(ctx); err != nil {
		return Pulled{}, err
	}
	return s.catalog.Remove(ctx, reference)
}
