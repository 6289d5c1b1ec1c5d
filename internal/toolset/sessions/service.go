package sessions

import (
	"context"
	"fmt"
	"sync"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/service"
)

// Service implements the toolset.
type Service struct {
	core    *service.Service
	store   fleet.Store
	catalog Catalog
	cfg     Config
	turns   *turns
	// listeners counts the calls that wait for answers.
	listeners *listeners

	stop context.CancelFunc
	done sync.WaitGroup
}

// New returns the toolset over the core, its store, and the catalog of definitions.
func New(core *service.Service, store fleet.Store, catalog Catalog, c Config) *Service {
	c.fill()
	return &Service{core: core, store: store, catalog: catalog, cfg: c, turns: newTurns(c.MaxWaiting), listeners: newListeners()}
}

func (s *Service) now() time.Time { return s.cfg.Now().UTC().Truncate(time.Microsecond) }

// session returns a session of the caller, open or closed. SESSION_NOT_FOUND also for another principal's session.
func session(tx fleet.ReadTx, p fleet.Principal, id string) (*fleet.Session, error) {
	if id == "" {
		return nil, fleet.Invalid(fleet.ReasonInvalidArgument, "agent_session_id", "agent_session_id is empty").Next("{create_agent_session} gives one")
	}
	x, err := tx.Session(id)
	if err != nil {
		return nil, err
	}
	if x == nil || x.Toolset != fleet.ToolsetSessions || !p.MaySee(x.Owner) {
		return nil, notFound(id)
	}
	return x, nil
}

func notFound(id string) *fleet.Error {
	return fleet.Errorf(fleet.ReasonSessionNotFound, "there is no session %q", shorten(id, 60)).Next("{list_agent_sessions} shows the open ones, and {create_agent_session} begins one").
		With("agent_session_id", shorten(id, 60))
}

// isClosed returns the error for a closed session.
func isClosed(x *fleet.Session) *fleet.Error {
	return fleet.Errorf(fleet.ReasonSessionNotFound, "the session %q is closed: %s", x.ID, x.CloseReason).Next("{create_agent_session} begins another one").
		With("agent_session_id", x.ID).With("close_reason", x.CloseReason)
}

// shorten returns the first n characters of s, with an ellipsis if it is longer.
func shorten(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-1]) + "…"
}

// idle reports whether the session was unused for too long.
func (s *Service) idle(x *fleet.Session) bool {
	return s.cfg.IdleTimeout > 0 && s.now().Sub(x.UsedAt) >= s.cfg.IdleTimeout
}

func (s *Service) idleReason() string {
	return fmt.Sprintf("it was not used for %s", s.cfg.IdleTimeout)
}
