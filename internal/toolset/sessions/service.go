package sessions

import (
	"context"
	"fmt"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/service"
	"fleet/internal/toolset/conversation"
)

// Service implements the toolset. Apart from Start, Stop and Sweep, its methods act for the principal in their context. They
// are safe for concurrent use.
type Service struct {
	core         *service.Service
	catalog      fleet.Catalog
	cfg          Config
	serviceID    string // identifies this service among all services on the store
	turns        *conversation.Turns
	waitingCalls *waitingCalls
	sweeper      *conversation.Sweeper // nil until started
}

// New returns the toolset over the core and the catalog of definitions. Call Start to begin the search for idle sessions.
func New(core *service.Service, catalog fleet.Catalog, c Config) *Service {
	c.setDefaults()
	return &Service{core: core, catalog: catalog, cfg: c, serviceID: core.NewID(), turns: conversation.NewTurns(c.MaxWaiting), waitingCalls: newWaitingCalls()}
}

func (s *Service) now() time.Time { return s.cfg.Now().UTC().Truncate(time.Microsecond) }

// session returns a session of the caller, open or closed. It returns SESSION_NOT_FOUND if there is none with the id,
// or if it belongs to another principal.
func (s *Service) session(ctx context.Context, id string) (*service.SessionView, error) {
	if id == "" {
		return nil, fleet.InvalidField("agent_session_id", "agent_session_id is empty").Next("{create_agent_session} gives one")
	}
	return s.core.Session(ctx, fleet.ToolsetSessions, id)
}

// isIdle reports whether the session was unused for too long.
func (s *Service) isIdle(x *fleet.Session) bool {
	return s.cfg.IdleTimeout > 0 && s.now().Sub(x.UsedAt) >= s.cfg.IdleTimeout
}

func (s *Service) idleReason() string {
	return fmt.Sprintf("it was not used for %s", s.cfg.IdleTimeout)
}
