package fleet

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

// MaxText is the largest spec, description or message, in bytes.
const MaxText = 1 << 20

// Service is what callers do with the fleet. Every method acts for the principal in its context, and sees and touches
// only what that principal may. Methods are safe for concurrent use.
type Service struct {
	store   Store
	backend Place  // hosts the fleet
	traits  Traits // of backend
	hosts   map[string]Place
	cfg     Config
	log     *slog.Logger
	snap    *snapshot
	catalog *catalog // of backend
	// catalogs are those of all backends, by the name that Agent.Backend has for them.
	catalogs map[string]*catalog
	ended    endedAgents
	// observed is when the backend last listed all its workspaces, in Unix milliseconds; 0: never.
	observed atomic.Int64
	// unlisted is why the backend did not list its workspaces when it was last asked; nil: it did.
	unlisted atomic.Pointer[outage]
	// firstPoll is closed when the first listing has succeeded or failed.
	firstPoll chan struct{}
	polled    sync.Once              // closes firstPoll
	begun     time.Time              // when the service was made
	unread    atomic.Pointer[outage] // the store could not be read; nil: it could
	// down is what the backend said when it was last asked and did not answer; nil: it did.
	down atomic.Pointer[outage]
}

// NewService returns a service over the two ports. It starts nothing: without a Reconciler on the same store nothing
// that was asked for happens.
func NewService(store Store, backend Place, cfg Config) *Service {
	t := backend.Traits()
	cfg = cfg.withDefaults(t)
	hosts, catalogs := hostsOf(backend, cfg.Hosts), map[string]*catalog{}
	for name, b := range hosts {
		catalogs[name] = newCatalog(b, cfg.Now)
	}
	return &Service{
		store: store, backend: backend, traits: t, hosts: hosts, cfg: cfg, log: cfg.Logger,
		snap: newSnapshot(store), catalog: catalogs[t.Name], catalogs: catalogs, firstPoll: make(chan struct{}), begun: cfg.Now(),
	}
}

// NewID returns an id that was never given before.
func (s *Service) NewID() string { return s.cfg.NewID() }

// now is the time as the store keeps it.
func (s *Service) now() time.Time { return s.cfg.Now().UTC().Truncate(time.Microsecond) }

// agent returns the agent that a caller means by ref.
func (s *Service) agent(ctx context.Context, ref string) (*AgentView, Principal, error) {
	p, err := PrincipalFrom(ctx)
	if err != nil {
		return nil, p, err
	}
	if ref == "" {
		return nil, p, Invalid(ReasonInvalidArgument, "agent_name", "agent_name is required: name an agent, see list_agents")
	}
	known := s.observed.Load() != 0 // before the snapshot is read, which then has what was listed
	if err := s.snap.refresh(ctx); err != nil {
		return nil, p, err
	}
	name, owner := ParseAgentRef(ref)
	v, err := s.snap.find(p, name, owner)
	if known || ReasonOf(err) != ReasonAgentNotFound {
		return v, p, err
	}
	// Before the first complete listing nobody knows that it is not there.
	if err := s.known(ctx); err != nil {
		return nil, p, err
	}
	if err := s.snap.refresh(ctx); err != nil {
		return nil, p, err
	}
	v, err = s.snap.find(p, name, owner)
	return v, p, err
}

// waitFor waits until ok says yes of the agent as it is in the snapshot, at most d, and returns the agent as it is
// then. Time over is no error.
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

// gone returns an agent that the snapshot no longer has.
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

// touch loads the agent in tx for a change by a caller: NotFound when it was deleted since it was resolved.
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
	return Errorf(ReasonAgentNotFound, "agent %q not found: list_agents shows the agents there are", shorten(name, 60)).With("agent_name", shorten(name, 60))
}

// checkText checks a text that a caller gave: not empty, not too large, and text.
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
