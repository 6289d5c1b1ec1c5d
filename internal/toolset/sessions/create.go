package sessions

import (
	"context"
	"strings"
	"unicode/utf8"

	"fleet/internal/fleet"
	"fleet/internal/service"
)

// checkDriver returns an error if no place of this server can run agents that are made from definitions.
func (s *Service) checkDriver() error {
	if _, ok := s.core.TraitsWithDriver(s.cfg.Driver); !ok {
		return fleet.Errorf(fleet.ReasonBackendUnavailable, "this server cannot run agents from definitions: none of its places has the driver %q; the server's log says why", s.cfg.Driver)
	}
	return nil
}

// launchRequest returns the request that starts an agent from the definition.
func (s *Service) launchRequest(method string, d *fleet.Definition, name string, l Location) (service.LaunchRequest, error) {
	c := &fleet.AgentConfig{Name: d.Name, Driver: s.cfg.Driver, Document: d.Document, UntrustedDocument: d.Source == fleet.DefinitionStore}
	project, err := s.applyLocation(c, l)
	return service.LaunchRequest{Method: method, Toolset: fleet.ToolsetSessions, Config: c, Project: project, Name: name}, err
}

// maxName is the maximum length of a session's name, in characters.
const maxName = 200

// Create opens a session with an agent. It returns the earlier session if requestID was used before. It returns
// LIMIT_REACHED if the principal has too many open sessions and none can be closed.
func (s *Service) Create(ctx context.Context, agent, name, requestID string, location Location) (*fleet.Session, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	if utf8.RuneCountInString(name) > maxName || strings.ContainsRune(name, 0) {
		return nil, fleet.InvalidField("session_name", "the session's name has more than %d characters or contains a NUL character: choose another name", maxName)
	}
	c := service.Call{Method: "CreateAgentSession", RequestID: requestID, Body: location.requestBody(agent, name)}
	if x, err := s.core.EarlierSession(ctx, c); x != nil || err != nil {
		return x, err
	}
	f, err := s.findAgent(ctx, agent)
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
		l, err := s.launchRequest(c.Method, f.definition, "session", location)
		if err != nil {
			return nil, err
		}
		l.RequestID, l.Body = c.RequestID, c.Body
		r.Launch = &l
	} else {
		if err := location.checkUnset(); err != nil {
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
	if earlier, e := s.core.EarlierSession(ctx, c); earlier != nil && e == nil { // a concurrent call with the same request id was faster
		return earlier, nil
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
	openCount := len(open)
	for i := len(open) - 1; i >= 0 && openCount >= s.cfg.MaxSessions; i-- { // the most recently used session is the first
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
			openCount--
		}
	}
	return nil
}
