package fleet

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// poll asks the backend for all its workspaces now and then, so that what happens to them behind Fleet's back shows.
// One reconciler on a store does it.
func (r *Reconciler) poll(ctx context.Context) {
	tick := time.NewTicker(r.cfg.PollInterval)
	defer tick.Stop()
	defer func() { _ = r.store.Release(context.WithoutCancel(ctx), r.pollKey(), r.owner) }() // else it runs out
	for {
		if err := r.pollOnce(ctx); err != nil && ctx.Err() == nil && r.unlisted.Load() == nil { // else it was logged when it began
			r.log.ErrorContext(ctx, "poll failed", slog.Any("error", err))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// pollKey is the key of the poller's lease, and of the note of the last complete listing. Each backend has its own: what
// one has listed says nothing about another one's agents.
func (s *Service) pollKey() string { return "poll/" + s.traits.Name }

// silence is how long the one who asks may be told nothing before the backend counts as down; longer when one who died
// would keep the lease for longer.
const silence = 10 * time.Second

// hear finds out what the one who asks was told: when the backend last listed its workspaces, and so whether it answers.
func (r *Reconciler) hear(ctx context.Context) error {
	at, err := r.noted(ctx)
	if err != nil || at.IsZero() {
		return err
	}
	silent := r.now().Sub(at)
	if silent > max(4*r.cfg.PollInterval, min(r.cfg.CallTimeout, silence)) {
		err := Errorf(ReasonBackendUnavailable, "the agents' host has not answered for %s", silent.Round(time.Second))
		r.reached(err)
		r.listingFailed(err)
		return nil
	}
	if o := r.down.Load(); o != nil && at.After(o.at) {
		r.reached(nil)
	}
	if o := r.unlisted.Load(); o != nil && at.After(o.at) {
		r.unlisted.Store(nil)
	}
	r.polled.Do(func() { close(r.firstPoll) })
	return nil
}

func (r *Reconciler) pollOnce(ctx context.Context) error {
	now := r.now()
	ok, err := r.store.Lease(ctx, r.pollKey(), r.owner, now, now.Add(3*r.cfg.PollInterval))
	if err != nil {
		return err
	}
	if !ok {
		return r.hear(ctx)
	}
	if err := r.snap.refresh(ctx); err != nil {
		return err
	}
	all := r.snap.all()
	errs := []error{r.pollHost(ctx, "", r.list, all)}
	for _, name := range r.Hosts() {
		list := func(ctx context.Context) ([]Workspace, error) { return r.listOf(ctx, r.hosts[name]) }
		if name != r.traits.Name && slices.ContainsFunc(all, func(v *AgentView) bool { return v.Backend == name }) {
			errs = append(errs, r.pollHost(ctx, name, list, all))
		}
	}
	return errors.Join(errs...)
}

// pollHost asks one backend; "" is the one of the fleet.
func (r *Reconciler) pollHost(ctx context.Context, host string, list func(context.Context) ([]Workspace, error), all []*AgentView) error {
	at := r.now()
	workspaces, err := list(ctx)
	if err != nil {
		return err
	}
	before := slices.DeleteFunc(slices.Clone(all), func(v *AgentView) bool {
		return v.Backend != host && (host != "" || !r.ours(&v.Agent))
	})
	byUID, byID := map[string]*AgentView{}, map[string]*AgentView{}
	for _, v := range before {
		byUID[v.UID] = v
		if v.WorkspaceID != "" {
			byID[v.WorkspaceID] = v
		}
	}
	var errs []error // what is wrong with one agent keeps no other one from being seen
	listed := map[string]bool{}
	complete := true // every agent of the list is in the store
	for _, ws := range workspaces {
		v := byUID[ws.AgentUID]
		if v == nil {
			v = byID[ws.ID]
		}
		if v == nil {
			if host == "" {
				err := r.adopt(ctx, ws)
				complete = complete && err == nil && !r.awaitsName(ws)
				errs = append(errs, err)
			}
			continue
		}
		listed[v.UID] = true
		errs = append(errs, r.noticed(ctx, v, ws))
	}
	if host == "" && (complete || r.observed.Load() != 0) {
		errs = append(errs, r.listed(ctx, at))
	}
	missing := slices.DeleteFunc(slices.Clone(before), func(v *AgentView) bool {
		return listed[v.UID] || v.WorkspaceID == "" || !v.Settled()
	})
	return errors.Join(append(errs, r.inspectAll(ctx, missing))...)
}

// list lists the workspaces of the fleet. It is what tells whether the backend answers.
func (r *Reconciler) list(ctx context.Context) ([]Workspace, error) {
	workspaces, err := r.listOf(ctx, r.backend)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		e := unlistedBecause(err)
		r.reached(e)
		r.listingFailed(e)
		return nil, err
	}
	r.reached(nil)
	r.unlisted.Store(nil)
	return workspaces, nil
}

// listed records that everything the backend had at the time is in the store.
func (r *Reconciler) listed(ctx context.Context, at time.Time) error {
	r.observed.Store(at.UnixMilli())
	r.polled.Do(func() { close(r.firstPoll) })
	return r.store.Note(ctx, r.pollKey(), at)
}

func (r *Reconciler) listOf(ctx context.Context, b Place) ([]Workspace, error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.CallTimeout)
	defer cancel()
	workspaces, err := b.List(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = Errorf(ReasonBackendUnavailable, "the agents' host did not list its workspaces within %s", r.cfg.CallTimeout).Because(err)
	}
	return workspaces, err
}

// inspectMissing is how long the backend gets to tell about a workspace that it did not list.
const inspectMissing = 5 * time.Second

// inspectAll looks at the workspaces of the agents one by one, several at a time.
func (r *Reconciler) inspectAll(ctx context.Context, agents []*AgentView) error {
	ctx, cancel := context.WithTimeout(ctx, min(r.cfg.CallTimeout, inspectMissing))
	defer cancel()
	errs := make([]error, len(agents))
	var looking sync.WaitGroup
	for i, v := range agents {
		select {
		case r.lines <- struct{}{}:
		case <-ctx.Done():
			errs[i] = ctx.Err()
			continue
		}
		looking.Go(func() {
			defer func() { <-r.lines }()
			ws, err := r.host(&v.Agent).Inspect(ctx, v.Agent)
			if ws.ID == "" {
				ws.ID = v.WorkspaceID
			}
			if err == nil {
				err = r.noticed(ctx, v, ws)
			}
			errs[i] = err
		})
	}
	looking.Wait()
	return errors.Join(errs...)
}

// noticed takes in how the workspace was found, unless its agent is being worked on or was changed since v was read:
// then what was found may be older than what is known.
func (r *Reconciler) noticed(ctx context.Context, v *AgentView, ws Workspace) error {
	if !v.Settled() || !v.differs(ws) {
		return nil
	}
	return r.store.Update(ctx, func(tx Tx) error {
		a, err := tx.Agent(v.UID)
		if err != nil || a == nil || a.Revision != v.Revision || !a.DeletedAt.IsZero() {
			return err
		}
		a.take(ws)
		if a.Desired == DesiredStopped && v.WorkspaceID != "" && (a.State == StateRunning || a.State == StateStarting) {
			a.Desired = DesiredRunning // somebody started it at its host
		}
		a.UpdatedAt = r.now()
		if a.State == StateDeleted {
			return r.vanish(tx, a)
		}
		if err := tx.UpdateAgent(a); err != nil {
			return err
		}
		return tx.Append(a.event(EventAgentChanged, a.UpdatedAt, stateText(a.State, a.StateReason)))
	})
}

// awaitsName says whether the workspace is an agent of which its host does not know enough yet to take it in.
func (r *Reconciler) awaitsName(ws Workspace) bool {
	return r.traits.Adopts && ws.Name == "" && ws.State != StateDeleted && ws.State != StateDeleting
}

// adopt takes in an agent that the backend has and the store does not know.
func (r *Reconciler) adopt(ctx context.Context, ws Workspace) error {
	if !r.traits.Adopts || ws.Name == "" || ws.State == StateDeleted || ws.State == StateDeleting {
		return nil
	}
	err := r.store.Update(ctx, func(tx Tx) error {
		if a, err := tx.AgentByWorkspace(ws.ID); err != nil || a != nil {
			return err
		}
		if same, err := tx.AgentsByName(ws.Name, r.nameSpace(ws.Owner)); err != nil || len(same) > 0 {
			return err // it is being made this moment, or the name is another one's
		}
		now := r.now()
		a := &Agent{
			UID: ws.AgentUID, Name: ws.Name, Owner: ws.Owner, Project: ws.Project, Role: ws.Role, Spec: ws.Spec,
			Desired: DesiredRunning, CreatedAt: ws.CreatedAt, UpdatedAt: now,
		}
		if a.UID == "" {
			a.UID = r.cfg.NewID()
		}
		if a.CreatedAt.IsZero() {
			a.CreatedAt = now
		}
		a.take(ws)
		if err := tx.InsertAgent(a); err != nil {
			return err
		}
		return tx.Append(a.event(EventAgentCreated, now, "agent adopted: its workspace was found at its host"))
	})
	if err == nil || ReasonOf(err) == ReasonAgentExists {
		return nil
	}
	return err
}

// outage is what the backend said when it did not answer.
type outage struct {
	err   *Error
	at    time.Time // of the last failure
	since time.Time // of the first one in a row
}

// reached remembers whether the backend answered a call that it alone answers, not one of its agents.
func (s *Service) reached(err error) {
	e, ok := errors.AsType[*Error](err)
	switch {
	case err == nil:
		s.down.Store(nil)
	case ok && e.Reason == ReasonBackendUnavailable:
		if s.fail(&s.down, e) {
			s.log.Warn("the agents' host does not answer", slog.Any("error", err))
		}
	}
}

// listingFailed remembers that the backend did not list its workspaces.
func (s *Service) listingFailed(e *Error) {
	s.fail(&s.unlisted, e)
	s.polled.Do(func() { close(s.firstPoll) })
}

// fail records a failure in the outage, and says whether it is the first one in a row.
func (s *Service) fail(o *atomic.Pointer[outage], e *Error) bool {
	now := s.now()
	next := &outage{e, now, now}
	if old := o.Load(); old != nil {
		next.since = old.since
	}
	return o.Swap(next) == nil
}

// available returns the error of a backend that did not answer when it was last asked: a caller who wants something
// done is told at once. What is long ago counts for nothing.
func (s *Service) available() error {
	o := s.down.Load()
	if o == nil || s.now().Sub(o.at) > 3*s.cfg.PollInterval {
		return nil
	}
	c := *o.err
	if c.RetryAfter == 0 {
		c.RetryAfter = s.cfg.PollInterval
	}
	return &c
}
