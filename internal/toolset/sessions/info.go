package sessions

import (
	"context"

	"fleet/internal/fleet"
	"fleet/internal/service"
)

// Info is a session with its current state.
type Info struct {
	*fleet.Session
	Count     int    // number of messages in its history, of both sides
	Working   bool   // its agent is working on a message
	Project   string // the project of the session's agent; empty if it has none
	Directory string // the directory of the session's agent, if the session was created with a directory or a project
}

// Info returns a session of the caller, open or closed.
func (s *Service) Info(ctx context.Context, id string) (*Info, error) {
	v, err := s.session(ctx, id)
	if err != nil {
		return nil, err
	}
	return infoOf(v), nil
}

func infoOf(v *service.SessionView) *Info {
	info := &Info{Session: v.Session, Count: 2 * v.Turns, Working: v.ClosedAt.IsZero() && v.Turn() != nil}
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
