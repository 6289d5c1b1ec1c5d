package service

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/state"
)

// Service implements the calls of the fleet. A method that needs a principal takes it from its context, and reads and changes only what
// the principal may read and change. The methods that the server itself calls, such as Dispatch and RunTrain, act for the fleet.
// Methods are safe for concurrent use, unless their comments say something else.
type Service struct {
	store       fleet.Store
	places      *state.Places
	cfg         state.Config
	log         *slog.Logger
	snap        *state.Snapshot
	tail        *state.LogTail
	endedAgents endedAgents
	queue       *state.Queue

	readTask         taskReader
	nextTicks        map[string]cachedTick // next ticks of schedules, by Schedule.Key; only queueDueSchedules uses it
	placeQueries     placeQueries          // only Dispatch uses it
	storeAnswered    func()                // gives the current call of Dispatch more time
	cachedPrincipals sync.Map              // of cachedPrincipal, by source and id of the subject

	// tokens looks up tokens by hash. Lookups at the same time share a query, because there are many: one for each call with a token,
	// and two a second for each open call. Anybody can cause lookups with tokens that do not exist.
	tokens     *state.Batcher[string, *fleet.Token]
	interrupts *state.Interrupts
	audit      *AuditLog
	limits     atomic.Pointer[fleet.Limits]

	lastDispatch  atomic.Pointer[dispatchState]       // never nil
	poolSettings  atomic.Pointer[[]fleet.PoolSetting] // those that Dispatch has not applied yet; nil if there are none
	keepFree      atomic.Pointer[map[string]float64]  // CredentialView.KeepFree of the credentials of the configuration, by name
	estimates     estimates
	lastObserved  sync.Map               // what ObserveLandings has last seen, by fleet.Train
	trainBackoffs sync.Map               // the last backoff of a train that could not move its branch, by fleet.Train
	webhookRoot   atomic.Pointer[[]byte] // see webhookSecret; nil until it was read
}

// New returns a service over the state. It starts no background work: requested changes only happen if a Reconciler runs
// on the same store.
func New(s *state.Fleet) *Service {
	svc := &Service{store: s.Store, places: s.Places, cfg: s.Config, log: s.Log, snap: s.Snapshot, tail: s.Tail, queue: s.Queue, interrupts: s.Interrupts, tokens: state.NewBatcher(s.Store.TokensByHash), audit: newAuditLog(s.Store, s.Log)}
	svc.SetLimits(s.Config.Limits)
	svc.SetPools(s.Config.Pools)
	svc.SetCredentials(s.Config.Credentials)
	s.Snapshot.OnChange(svc.endedAgents.forget)
	return svc
}

// Limits returns the limits of principals and projects.
func (s *Service) Limits() fleet.Limits { return *s.limits.Load() }

// SetLimits replaces the limits. It does not stop or delete anything that exceeds the new ones.
func (s *Service) SetLimits(l fleet.Limits) {
	s.limits.Store(&l)
	s.forceDispatch()
}

// AuditLog returns the log to which the server writes the audit entry of each call.
func (s *Service) AuditLog() *AuditLog { return s.audit }

// NewID returns a new unique id.
func (s *Service) NewID() string { return s.cfg.NewID() }

// Now returns the time by the fleet's clock, see state.Config.
func (s *Service) Now() time.Time { return s.cfg.Now() }

// now returns the time with the precision of the store.
func (s *Service) now() time.Time { return s.cfg.Time() }

// agent returns the agent that the caller's reference names, and the caller. The error is PERMISSION_DENIED if the caller may see the
// agent but does not have the needed access to it. agent also counts the call as a request about the agent's project.
func (s *Service) agent(ctx context.Context, ref string, needed fleet.Access) (*fleet.AgentView, fleet.Principal, error) {
	v, p, err := s.findAgent(ctx, ref)
	if err == nil {
		err = requireAccess(p, &v.Agent, needed)
	}
	if err == nil {
		err = fleet.CountProjectRequest(ctx, v.Project)
	}
	if err != nil {
		return nil, p, err
	}
	return v, p, nil
}

// findAgent returns the agent that the caller's reference names, and the caller. The error is AGENT_NOT_FOUND if the caller may not
// see the agent. In a call of a bulk operation, findAgent ignores ref and returns the planned agent.
func (s *Service) findAgent(ctx context.Context, ref string) (*fleet.AgentView, fleet.Principal, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, p, err
	}
	if planned := plannedAgentFrom(ctx); planned != nil {
		v, err := s.findPlannedAgent(ctx, p, planned)
		return v, p, err
	}
	if ref == "" {
		return nil, p, fleet.InvalidField("agent_name", "agent_name is required: name an agent").Next("{list_agents} lists them")
	}
	allListed := s.places.AllListed() // before the snapshot is read, so that the snapshot contains what was listed
	name, owner := fleet.SplitOwnedRef(ref)
	if err := s.snap.RefreshNamed(ctx, name); err != nil {
		return nil, p, err
	}
	v, err := s.snap.Find(p, name, owner)
	if allListed || fleet.ReasonOf(err) != fleet.ReasonAgentNotFound {
		return v, p, err
	}
	// Before the first complete listing of every place, it is not certain that the agent does not exist.
	if err := s.places.EnsureAllListed(ctx); err != nil {
		return nil, p, err
	}
	if err := s.snap.RefreshNamed(ctx, name); err != nil {
		return nil, p, err
	}
	v, err = s.snap.Find(p, name, owner)
	return v, p, err
}

// lastAgentUID returns the uid of the agent that the caller's reference names: an existing agent, or else the agent of that
// name that was deleted last. The caller's own agents take precedence. The error is PERMISSION_DENIED if the caller may see
// the agent but does not have the needed access.
func (s *Service) lastAgentUID(ctx context.Context, ref string, needed fleet.Access) (string, error) {
	v, p, err := s.agent(ctx, ref, needed)
	if err == nil {
		return v.UID, nil
	}
	if fleet.ReasonOf(err) != fleet.ReasonAgentNotFound {
		return "", err
	}
	name, owner := fleet.SplitOwnedRef(ref)
	owners := []string{owner}
	switch {
	case owner == "" && p.Admin():
		owners = []string{p.Name, ""} // the caller's own agents first
	case owner == "":
		owners = []string{p.Name}
	case !p.Owns(owner):
		owners = nil
	}
	a, readErr := view(ctx, s.store, func(tx fleet.ReadTx) (a *fleet.Agent, err error) {
		for _, o := range owners {
			if a, err = fleet.First(tx.Agents(fleet.AgentFilter{Name: name, Owner: o, Newest: true})); err != nil || a != nil {
				break
			}
		}
		return a, err
	})
	switch {
	case readErr != nil:
		return "", readErr
	case a == nil:
		a = s.snap.Shares().Named(p, name, owner)
	}
	if a == nil {
		return "", err
	}
	return a.UID, requireAccess(p, a, needed)
}

// await calls check at once, after changes in the store, and after d, until check returns true or an error. It returns nil if d is over.
func (s *Service) await(ctx context.Context, d time.Duration, check func() (done bool, err error)) error {
	signal, cancel := s.store.Subscribe()
	defer cancel()
	timer := time.NewTimer(d)
	defer timer.Stop()
	for over := false; ; {
		if done, err := check(); err != nil || done || over {
			return err
		}
		fleet.ReleaseSlot(ctx)
		select {
		case <-signal:
		case <-timer.C:
			over = true
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// waitForAgent waits until ok returns true for the agent, at most d, and returns the agent as it is then. It returns the agent and no
// error if d is over.
func (s *Service) waitForAgent(ctx context.Context, uid string, d time.Duration, ok func(*fleet.AgentView) bool) (v *fleet.AgentView, err error) {
	err = s.await(ctx, d, func() (bool, error) {
		err := s.snap.RefreshAgents(ctx, uid)
		if v = s.snap.Get(uid); err == nil && v == nil {
			v, err = s.storedAgent(ctx, uid)
		}
		return err == nil && ok(v), err
	})
	if err != nil {
		return nil, err
	}
	return v, nil
}

// waitForEnd waits until the task is no longer the task of its agent, at most d, and returns the agent as it is then.
func (s *Service) waitForEnd(ctx context.Context, t *fleet.Task, d time.Duration) (*fleet.AgentView, error) {
	return s.waitForAgent(ctx, t.AgentUID, d, func(v *fleet.AgentView) bool { return v.Task == nil || v.Task.ID != t.ID })
}

// storedAgent returns the agent, which may be deleted, from the store. The view has no task, even if the agent works on one.
func (s *Service) storedAgent(ctx context.Context, uid string) (*fleet.AgentView, error) {
	a, err := view(ctx, s.store, func(tx fleet.ReadTx) (*fleet.Agent, error) { return tx.Agent(uid) })
	if err == nil && a == nil {
		err = fleet.Errorf(fleet.ReasonInternal, "agent %s is not in the store", uid)
	}
	if err != nil {
		return nil, err
	}
	return &fleet.AgentView{Agent: *a}, nil
}

// changeAgent changes the agent once per request id, and returns it as the store has it afterwards, without its task. v is the agent as
// the caller has found it; nil if the call is refused. change returns the event of the change, or nil if nothing changes.
func (s *Service) changeAgent(
	ctx context.Context, c Call, v *fleet.AgentView, needed fleet.Access, change func(fleet.Tx, *fleet.Agent) (*fleet.Event, error),
) (*fleet.AgentView, error) {
	result, _, err := s.Once(ctx, c, func(tx fleet.Tx, p fleet.Principal) (CallResult, error) {
		current, err := agentForUpdate(tx, p, v, needed)
		if err != nil {
			return CallResult{}, err
		}
		a := &current.Agent
		result := CallResult{AgentUID: a.UID}
		e, err := change(tx, a)
		if err != nil || e == nil {
			return result, err
		}
		a.UpdatedAt = e.Time
		if err := tx.Update(a); err != nil {
			return result, err
		}
		return result, tx.Append(e)
	})
	if err != nil {
		return nil, err
	}
	return s.earlierAgent(ctx, result)
}

// agentForUpdate reads the agent in tx for a change by p. v is the agent as it was found before tx began. The error is AGENT_NOT_FOUND
// if the agent was deleted meanwhile, and PERMISSION_DENIED or AGENT_NOT_FOUND if a share that p needs has ended meanwhile.
func agentForUpdate(tx fleet.Tx, p fleet.Principal, v *fleet.AgentView, needed fleet.Access) (*fleet.AgentView, error) {
	current, err := state.ReadAgentView(tx, v.UID)
	if err != nil {
		return nil, err
	}
	if current == nil || !current.DeletedAt.IsZero() || current.Desired == fleet.DesiredDeleted {
		return nil, fleet.AgentNotFound(v.Name)
	}
	return current, requireAccess(p, &current.Agent, needed)
}
