package service

import (
	"context"

	"fleet/internal/fleet"
)

// ShowAgent returns the agent.
func (s *Service) ShowAgent(ctx context.Context, ref string) (*fleet.AgentView, error) {
	v, _, err := s.agent(ctx, ref, fleet.AccessView)
	return v, err
}

// AccessTo returns the caller's access to the agent.
func (s *Service) AccessTo(ctx context.Context, v *fleet.AgentView) (fleet.Access, error) {
	p, err := fleet.PrincipalFrom(ctx)
	return p.ScopedAccess(&v.Agent), err
}

// The default and the maximum number of lines of a log in one response.
const (
	DefaultLogLines = 200
	MaxLogLines     = 10000
)

// ShowAgentLog returns the last lines of the log of the agent's workspace, and whether the log has more lines.
func (s *Service) ShowAgentLog(ctx context.Context, ref string, lines int) ([]string, bool, error) {
	if lines < 1 || lines > MaxLogLines {
		return nil, false, fleet.InvalidField("lines", "lines is %d: ask for 1 to %d", lines, MaxLogLines)
	}
	v, _, err := s.agent(ctx, ref, fleet.AccessView)
	if err != nil {
		return nil, false, err
	}
	return s.places.Of(&v.Agent).Log(ctx, v.Agent, lines)
}
