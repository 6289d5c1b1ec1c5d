package sessions

import (
	"context"
	"errors"
	"strings"
	"unicode/utf8"

	"fleet/internal/fleet"
	"fleet/internal/service"
)

// found is what a caller's name for an agent refers to: a definition, or an agent of the fleet.
type found struct {
	definition *fleet.Definition
	agent      *fleet.AgentView
	source     fleet.DefinitionSource
}

// These limit names, in characters.
const (
	maxReference = 512
	maxName      = 200
)

// find resolves the name of an agent. A name that looks like a file is one. Otherwise definitions come before agents of
// the fleet, and these before artifacts, so that nobody can shadow the operator's or a caller's own agents by pulling
// an artifact.
func (s *Service) find(ctx context.Context, name string) (found, error) {
	switch {
	case strings.TrimSpace(name) == "":
		return found{}, fleet.Invalid(fleet.ReasonInvalidArgument, "agent", "the agent is empty").Next("{list_agents} shows which there are")
	case utf8.RuneCountInString(name) > maxReference || !utf8.ValidString(name) || strings.ContainsRune(name, 0):
		return found{}, fleet.Invalid(fleet.ReasonInvalidArgument, "agent", "the agent %q is not a file, a reference or a name", fleet.Shorten(strings.ToValidUTF8(name, "?"), 60))
	}
	d, err := s.catalog.File(ctx, name)
	if err == nil {
		return found{definition: &d, source: fleet.DefinitionFiles}, nil
	}
	if fleet.ReasonOf(err) != fleet.ReasonAgentNotFound || isPath(name) {
		return found{}, err
	}
	if v, err := s.core.ShowAgent(ctx, name); err == nil {
		if p, err := fleet.PrincipalFrom(ctx); err != nil || p.OwnsAll(v.Owner) { // a shared agent gets tasks, and no conversations
			return found{agent: v, source: fleet.DefinitionFleet}, err
		}
	} else if e, ok := errors.AsType[*fleet.Error](err); !ok || e.Code != fleet.NotFound && e.Code != fleet.InvalidArgument {
		return found{}, err
	}
	d, err = s.catalog.Artifact(ctx, name)
	if fleet.ReasonOf(err) == fleet.ReasonAgentNotFound {
		err = fleet.Errorf(fleet.ReasonAgentNotFound,
			"there is no agent %q: no file in the agents directory, no agent that was pulled and none of the fleet has the name",
			fleet.Shorten(name, 200)).Next("{list_agents} shows which there are").With("agent", fleet.Shorten(name, 200))
	}
	if err != nil {
		return found{}, err
	}
	return found{definition: &d, source: fleet.DefinitionStore}, nil
}

// isPath reports whether the name can only be a file.
func isPath(name string) bool {
	for _, prefix := range []string{"./", "../", "/", "~"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")
}

// hosted reports whether this server runs defined agents.
func (s *Service) hosted() error {
	if _, ok := s.core.PlaceWith(s.cfg.Driver); !ok {
		return fleet.Errorf(fleet.ReasonBackendUnavailable, "this server runs no agents of definitions: no place of it has the driver %q, and its log says why", s.cfg.Driver)
	}
	return nil
}

// launch returns the request for an agent of the definition.
func (s *Service) launch(method string, d *fleet.Definition, name string, p Place) (service.LaunchRequest, error) {
	r := &fleet.AgentConfig{Name: d.Name, Driver: s.cfg.Driver, Document: d.Document, Foreign: d.Source == fleet.DefinitionStore}
	project, err := s.apply(r, p)
	return service.LaunchRequest{Method: method, Toolset: fleet.ToolsetSessions, Config: r, Project: project, Name: name}, err
}

// body returns what a request id identifies. A place counts if it is given.
func (p Place) body(parts ...string) []string {
	if p == (Place{}) {
		return parts
	}
	return append(parts, p.Project, p.Directory)
}

// Warnings returns what will not work of the named agent. It is empty for an agent of the fleet, and for one that no
// longer exists.
func (s *Service) Warnings(ctx context.Context, agent string) []string {
	f, err := s.find(ctx, agent)
	if err != nil || f.definition == nil {
		return nil
	}
	return f.definition.Warnings
}

// Create opens a session with an agent.
func (s *Service) Create(ctx context.Context, agent, name, requestID string, place Place) (*fleet.Session, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	if utf8.RuneCountInString(name) > maxName || strings.ContainsRune(name, 0) {
		return nil, fleet.Invalid(fleet.ReasonInvalidArgument, "session_name", "the session's name has more than %d characters, or one that no name has", maxName)
	}
	c := service.Call{Method: "CreateAgentSession", RequestID: requestID, Body: place.body(agent, name)}
	if x, err := s.core.OpenedBefore(ctx, c); x != nil || err != nil {
		return x, err
	}
	f, err := s.find(ctx, agent)
	if err != nil {
		return nil, err
	}
	now := s.now()
	r := service.SessionRequest{Call: c, Max: s.cfg.MaxSessions, Session: fleet.Session{
		ID: s.core.NewID(), Toolset: fleet.ToolsetSessions, Owner: p.Name, Name: name, Agent: agent, Source: string(f.source), CreatedAt: now, UsedAt: now,
	}}
	if f.definition != nil {
		if err := s.hosted(); err != nil {
			return nil, err
		}
		l, err := s.launch(c.Method, f.definition, "session", place)
		if err != nil {
			return nil, err
		}
		l.RequestID, l.Body = c.RequestID, c.Body
		r.Launch = &l
	} else {
		if err := place.none(); err != nil {
			return nil, err
		}
		r.Session.AgentUID = f.agent.UID
	}
	if err := s.makeRoom(ctx); err != nil {
		return nil, err
	}
	x, _, err := s.core.OpenSession(ctx, r)
	if err == nil {
		return x, nil
	}
	if again, e := s.core.OpenedBefore(ctx, c); again != nil && e == nil { // a concurrent call with the same request id was faster
		return again, nil
	}
	return nil, err
}

// makeRoom closes idle sessions when the principal has as many sessions as allowed.
func (s *Service) makeRoom(ctx context.Context) error {
	open, err := s.core.Sessions(ctx, fleet.ToolsetSessions)
	if err != nil || len(open) < s.cfg.MaxSessions {
		return err
	}
	left := len(open)
	for i := len(open) - 1; i >= 0 && left >= s.cfg.MaxSessions; i-- { // the most recently used session is the first
		x := open[i]
		switch {
		case x.Turn() != nil || s.turns.Taken(x.ID):
			continue
		case s.idle(x.Session):
			err = s.close(ctx, x.Session, s.idleReason())
		case s.cfg.Evict:
			err = s.close(ctx, x.Session, "it made room for a new session, as the one that was not used for the longest time")
		default:
			continue
		}
		if err != nil {
			return err
		}
		left--
	}
	return nil
}
