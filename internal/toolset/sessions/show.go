package sessions

import (
	"context"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/service"
)

// Info describes a session, and whether its agent is working on a message.
type Info struct {
	*fleet.Session
	Count     int // number of messages in its history, of both sides
	Working   bool
	Project   string // the project of the session's agent; empty if it has none
	Directory string // the directory of the session's agent, if the session was created with a directory or a project
}

// Info describes a session of the caller, open or closed.
func (s *Service) Info(ctx context.Context, id string) (*Info, error) {
	v, err := s.session(ctx, id)
	if err != nil {
		return nil, err
	}
	return infoOf(v), nil
}

func infoOf(v *service.SessionView) *Info {
	info := &Info{Session: v.Session, Count: 2 * v.Messages, Working: v.ClosedAt.IsZero() && v.Turn() != nil}
	if v.Turn() != nil {
		info.Count-- // the agent has not answered the last message yet
	}
	if a := v.Agent; a != nil && fleet.DefinitionSource(v.Source) != fleet.DefinitionFleet && a.Config != nil && (a.Project != "" || a.Config.Dir != "") {
		info.Project, info.Directory = a.Project, a.Location
	}
	return info
}

// List returns the caller's open sessions, most recently used first.
func (s *Service) List(ctx context.Context) (all []*Info, err error) {
	open, err := s.core.Sessions(ctx, fleet.ToolsetSessions)
	for _, v := range open {
		all = append(all, infoOf(v))
	}
	return all, err
}

// Message is one message of a session.
type Message struct {
	Role    string // user or assistant
	Text    string
	Time    time.Time
	TaskID  string
	Status  fleet.TaskStatus // how the task ended; only for an assistant's message
	Problem string           // why there is no answer
}

// These limit History, in messages.
const (
	MaxHistory     = 2000
	defaultHistory = 100
)

// History returns the last messages of a session, at most limit, oldest first.
func (s *Service) History(ctx context.Context, id string, limit *int) ([]Message, error) {
	if _, err := s.session(ctx, id); err != nil {
		return nil, err
	}
	n := defaultHistory
	if limit != nil {
		n = *limit
	}
	if n < 1 || n > MaxHistory {
		return nil, fleet.Invalid(fleet.ReasonInvalidArgument, "limit", "limit is %d: give 1 to %d", n, MaxHistory)
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

// Agents returns the agents from the source, or from all sources if source is "".
func (s *Service) Agents(ctx context.Context, source fleet.DefinitionSource) ([]fleet.Definition, error) {
	if _, err := fleet.PrincipalFrom(ctx); err != nil {
		return nil, err
	}
	var all []fleet.Definition
	for _, from := range []struct {
		source fleet.DefinitionSource
		list   func(context.Context) ([]fleet.Definition, error)
	}{{fleet.DefinitionFiles, s.catalog.Files}, {fleet.DefinitionStore, s.catalog.Stored}, {fleet.DefinitionFleet, s.fleetAgents}} {
		if source != "" && source != from.source {
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

// maxDescription is how much of an agent's description a list shows, in bytes. Descriptions can have a megabyte each.
const maxDescription = 1000

// fleetAgents returns the agents in the fleet that the caller owns; see Principal.OwnsAll. For an admin, these are the
// agents of all owners. Agents that others share with the caller are left out.
func (s *Service) fleetAgents(ctx context.Context) ([]fleet.Definition, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	l, err := s.core.ListAgents(ctx, fleet.ListAgentsRequest{})
	if err != nil {
		return nil, err
	}
	all := make([]fleet.Definition, 0, len(l.Agents))
	for _, v := range l.Agents {
		if p.OwnsAll(v.Owner) {
			all = append(all, fleet.Definition{Name: v.Name, Description: fleet.Shorten(v.Spec, maxDescription), Source: fleet.DefinitionFleet})
		}
	}
	return all, nil
}

// Pull pulls an agent from a registry.
func (s *Service) Pull(ctx context.Context, reference string) (fleet.PulledArtifact, error) {
	if _, err := fleet.PrincipalFrom(ctx); err != nil {
		return fleet.PulledArtifact{}, err
	}
	fleet.ReleaseSlot(ctx) // a registry may take long
	return s.catalog.Pull(ctx, reference)
}

// RemovePulled removes an agent that the caller has pulled. An admin can also remove agents that others have pulled.
func (s *Service) RemovePulled(ctx context.Context, reference string) (fleet.PulledArtifact, error) {
	if _, err := fleet.PrincipalFrom(ctx); err != nil {
		return fleet.PulledArtifact{}, err
	}
	return s.catalog.Remove(ctx, reference)
}
