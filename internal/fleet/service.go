package fleet

import (
	"context"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxText is the largest spec, description or message, in bytes.
const MaxText = 1 << 20

// Service implements the calls of the fleet. Every method acts for the principal in its context, and sees and changes
// only what that principal may. Methods are safe for concurrent use.
type Service struct {
	store  Store
	places *Places
	cfg    Config
	log    *slog.Logger
	snap   *Snapshot
	ended  endedAgents
}

// NewService returns a service over the state. It starts nothing: without a Reconciler on the same store, requested
// changes do not happen.
func NewService(s *FleetState) *Service {
	return &Service{store: s.Store, places: s.Places, cfg: s.Config, log: s.Log, snap: s.Snapshot}
}

// NewID returns a new unique id.
func (s *Service) NewID() string { return s.cfg.NewID() }

// now returns the time with the precision of the store.
func (s *Service) now() time.Time { return s.cfg.Time() }

// agent returns the agent of a caller's reference.
func (s *Service) agent(ctx context.Context, ref string) (*AgentView, Principal, error) {
	p, err := PrincipalFrom(ctx)
	if err != nil {
		return nil, p, err
	}
	if ref == "" {
		return nil, p, Invalid(ReasonInvalidArgument, "agent_name", "agent_name is required: name an agent, see list_agents")
	}
	known := s.places.known() // before the snapshot is read, which then has what was listed
	if err := s.snap.refresh(ctx); err != nil {
		return nil, p, err
	}
	name, owner := ParseAgentRef(ref)
	v, err := s.snap.find(p, name, owner)
	if known || ReasonOf(err) != ReasonAgentNotFound {
		return v, p, err
	}
	// Before the first complete listing of every place, it is not certain that the agent does not exist.
	if err := s.places.allKnown(ctx); err != nil {
		return nil, p, err
	}
	if err := s.snap.refresh(ctx); err != nil {
		return nil, p, err
	}
	v, err = s.snap.find(p, name, owner)
	return v, p, err
}

// waitFor waits until ok accepts the agent in the snapshot, at most d, and returns the agent as it is then. A timeout
// is not an error.
func (s *Service) waitFor(ctx context.Context, uid string, d time.Duration, ok func(*AgentView) bool) (*AgentView, error) {
	signal, cancel := s.store.Subscribe()
	defer cancel()
	timer := time.NewTimer(d)
	defer timer.Stop()
	for over := false; ; {
		if err := s.snap.refresh(ctx); err != nil {
			return nil, err
		}
		v := s.snap.get(uid)
		if v == nil {
			deleted, err := s.gone(ctx, uid)
			if err != nil {
				return nil, err
			}
			v = deleted
		}
		if over || ok(v) {
			return v, nil
		}
		select {
		case <-signal:
		case <-timer.C:
			over = true
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// gone returns an agent that is no longer in the snapshot.
func (s *Service) gone(ctx context.Context, uid string) (*AgentView, error) {
	var v *AgentView
	err := s.store.View(ctx, func(tx ReadTx) error {
		a, err := tx.Agent(uid)
		if err == nil && a == nil {
			err = Errorf(ReasonInternal, "agent %s is not in the store", uid)
		}
		if err == nil {
			v = &AgentView{Agent: *a}
		}
		return err
	})
	return v, err
}

// touch loads the agent in tx for a change by a caller: NotFound if it was deleted since it was resolved.
func touch(tx Tx, v *AgentView) (*Agent, error) {
	a, err := tx.Agent(v.UID)
	if err != nil {
		return nil, err
	}
	if a == nil || !a.DeletedAt.IsZero() || a.Desired == DesiredDeleted {
		return nil, agentNotFound(v.Name)
	}
	return a, nil
}

func agentNotFound(name string) *Error {
	return Errorf(ReasonAgentNotFound, "agent %q not found", shorten(name, 60)).With("agent_name", shorten(name, 60)).
		Next("{list_agents} shows the agents there are")
}

// checkText checks a caller's text: not empty, not too large, and valid UTF-8.
func checkText(r Reason, field, what, text string) error {
	if isBlank(text) {
		return Invalid(r, field, "%s is empty: say in %s what is to be done", what, field)
	}
	return checkSize(field, what, text)
}

func checkSize(field, what, text string) error {
	if len(text) > MaxText {
		return Invalid(ReasonInvalidArgument, field, "%s has %d bytes, and at most %d are taken: put the rest into a file the agent can read", what, len(text), MaxText)
	}
	if strings.ContainsRune(text, 0) {
		return Invalid(ReasonInvalidArgument, field, "%s contains a NUL character, which no program can be given: remove it", what)
	}
	if !utf8.ValidString(text) {
		return Invalid(ReasonInvalidArgument, field, "%s is not valid UTF-8 text", what)
	}
	return nil
}

func isBlank(s string) bool {
	for _, r := range s {
		switch r {
		case ' ', '\t', '\n', '\r', '\v', '\f', '\u00a0', '\u200b', '\ufeff', 0:
		default:
			return false
		}
	}
	return true
}
