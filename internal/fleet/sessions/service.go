package sessions

import (
	"context"
	"fmt"
	"sync"
	"time"

	"fleet/internal/fleet"
)

// Service holds sessions.
type Service struct {
	core    *fleet.Service
	store   fleet.Store
	catalog Catalog
	cfg     Config
	turns   *turns
	// listeners are the calls that wait for answers.
	listeners *listeners

	stop context.CancelFunc
	done sync.WaitGroup
}

// New returns the toolset over the core, its store, and the definitions there are.
func New(core *fleet.Service, store fleet.Store, catalog Catalog, c Config) *Service {
	c.fill()
	return &Service{core: core, store: store, catalog: catalog, cfg: c, turns: newTurns(c.MaxWaiting), listeners: newListeners()}
}

func (s *Service) now() time.Time { return s.cfg.Now().UTC().Truncate(time.Microsecond) }

// session returns a session of the caller's, open or not. SESSION_NOT_FOUND for one of another principal too.
func session(tx fleet.ReadTx, p fleet.Principal, id string) (*fleet.Session, error) {
	if id == "" {
		return nil, fleet.Invalid(fleet.ReasonInvalidArgument, "agent_session_id", "agent_session_id is empty: create_agent_session gives one")
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
	return fleet.Errorf(fleet.ReasonSessionNotFound, "there is no session %q: create_agent_session begins one", shorten(id, 60)).
		With("agent_session_id", shorten(id, 60))
}

// isClosed is the error about a session that takes nothing any more.
func isClosed(x *fleet.Session) *fleet.Error {
	return fleet.Errorf(fleet.ReasonSessionNotFound, "the session %q is closed: %s; create_agent_session begins another one", x.ID, x.CloseReason).
		With("agent_session_id", x.ID).With("close_reason", x.CloseReason)
}

// shorten returns the first n characters of s, with an ellipsis where there were more.
func shorten(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-1]) + "…"
}

// idle says whether nobody has used the session for too long.
func (s *Service) idle(x *fleet.Session) bool {
	return s.cfg.IdleTimeout > 0 && s.now().Sub(x.UsedAt) >= s.cfg.IdleTimeout
}

func (s *Service) idleReason() string {
	return fmt.Sprintf("it was not used for %s", s.cfg.IdleTimeout)
}
