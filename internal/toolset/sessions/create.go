package sessions

import (
	"context"
	"errors"
	"strings"
	"unicode/utf8"

	"fleet/internal/fleet"
	"fleet/internal/service"
)

// foundAgent is what a caller's name for an agent refers to: a definition, or an agent of the fleet.
type foundAgent struct {
	definition *fleet.Definition
	agent      *fleet.AgentView
	source     fleet.DefinitionSource
}

// These limit names, in characters.
const (
	maxReference = 512
	maxName      = 200
)

// find returns the definition or the agent that the name refers to. It looks first for a definition in a file, then for
// an agent of the fleet, then for a pulled artifact. In this order, nobody can hide the operator's definitions or the
// caller's own agents by pulling an artifact. A name that isPath accepts can only be a file.
func (s *Service) find(ctx context.Context, name string) (foundAgent, error) {
	switch {
	case strings.TrimSpace(name) == "":
		return foundAgent{}, fleet.InvalidField("agent", "the agent is empty").Next("{list_agents} shows the agents")
	case utf8.RuneCountInString(name) > maxReference || !utf8.ValidString(name) || strings.ContainsRune(name, 0):
		return foundAgent{}, fleet.InvalidField("agent", "the agent %q is not a valid file name, reference or name", fleet.Shorten(strings.ToValidUTF8(name, "?"), 60))
	}
	d, err := s.catalog.File(ctx, name)
	if err == nil {
		return foundAgent{definition: &d, source: fleet.DefinitionFiles}, nil
	}
	if fleet.ReasonOf(err) != fleet.ReasonAgentNotFound || isPath(name) {
		return foundAgent{}, err
	}
	if v, err := s.core.ShowAgent(ctx, name); err == nil {
		if p, err := fleet.PrincipalFrom(ctx); err != nil || p.OwnsAll(v.Owner) { // a shared agent accepts tasks, but no conversations
			return foundAgent{agent: v, source: fleet.DefinitionFleet}, err
		}
	} else if e, ok := errors.AsType[*fleet.Error](err); !ok || e.Code != fleet.NotFound && e.Code != fleet.InvalidArgument {
		return foundAgent{}, err
	}
	d, err = s.catalog.Artifact(ctx, name)
	if fleet.ReasonOf(err) == fleet.ReasonAgentNotFound {
		err = fleet.Errorf(fleet.ReasonAgentNotFound,
			"there is no agent %q: no file in the agents directory, no pulled agent and no agent of the fleet has this name",
			fleet.Shorten(name, 200)).Next("{list_agents} shows the agents").With("agent", fleet.Shorten(name, 200))
	}
	if err != nil {
		return foundAgent{}, err
	}
	return foundAgent{definition: &d, source: fleet.DefinitionStore}, nil
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

// checkDriver returns an error if no place of this server can run agents that are made from definitions.
func (s *Service) checkDriver() error {
	if _, ok := s.core.PlaceWith(s.cfg.Driver); !ok {
		return fleet.Errorf(fleet.ReasonBackendUnavailable, "this server cannot run agents from definitions: none of its places has the driver %q; the server's log says why", s.cfg.Driver)
	}
	return nil
}

// launchRequest returns the request that starts an agent from the definition.
func (s *Service) launchRequest(method string, d *fleet.Definition, name string, p Place) (service.LaunchRequest, error) {
	c := &fleet.AgentConfig{Name: d.Name, Driver: s.cfg.Driver, Document: d.Document, UntrustedDocument: d.Source == fleet.DefinitionStore}
	project, err := s.applyPlace(c, p)
	return service.LaunchRequest{Method: method, Toolset: fleet.ToolsetSessions, Config: c, Project: project, Name: name}, err
}

// requestBody returns the values that must be equal when a request id is used again: the parts and, if it is set, the place.
func (p Place) requestBody(parts ...string) []string {
	if p == (Place{}) {
		return parts
	}
	return append(parts, p.Project, p.Directory)
}

// Warnings returns warnings about parts of the named agent's definition that will not work. It returns nil for an agent
// of the fleet, and if there is no agent with the name.
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
		return nil, fleet.InvalidField("session_name", "the session's name has more than %d characters or contains a NUL character: choose another name", maxName)
	}
	c := service.Call{Method: "CreateAgentSession", RequestID: requestID, Body: place.requestBody(agent, name)}
	if x, err := s.core.EarlierSession(ctx, c); x != nil || err != nil {
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
		if err := s.checkDriver(); err != nil {
			return nil, err
		}
		l, err := s.launchRequest(c.Method, f.definition, "session", place)
		if err != nil {
			return nil, err
		}
		l.RequestID, l.Body = c.RequestID, c.Body
		r.Launch = &l
	} else {
		if err := place.checkUnset(); err != nil {
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
	if again, e := s.core.EarlierSession(ctx, c); again != nil && e == nil { // a concurrent call with the same request id was faster
		return again, nil
	}
	return nil, err
}

// makeRoom closes sessions of the principal until one more is allowed. It closes idle sessions and, if Evict is set,
// the least recently used ones. It leaves sessions whose agent is working. If there is still no room, it returns no
// error, and opening the session fails.
func (s *Service) makeRoom(ctx context.Context) error {
	open, err := s.core.Sessions(ctx, fleet.ToolsetSessions)
	if err != nil || len(open) < s.cfg.MaxSessions {
		return err
	}
	left := len(open)
	for i := len(open) - 1; i >= 0 && left >= s.cfg.MaxSessions; i-- { // the most recently used session is the first
		x, reason := open[i], ""
		switch {
		case x.Turn() != nil || s.turns.InProgress(x.ID):
			continue
		case s.isIdle(x.Session):
			reason = s.idleReason()
		case s.cfg.Evict:
			reason = "it was the least recently used session and was closed to make room for a new one"
		default:
			continue
		}
		closed, err := s.closeUnused(ctx, x.Session, reason)
		if err != nil {
			return err
		}
		if closed {
			left--
		}
	}
	return nil
}
