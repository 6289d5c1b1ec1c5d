package fleet

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// poll asks the backend for all its workspaces now and then, so that what happens to them behind Fleet's back shows.
// One reconciler on a store does it.
func (r *Reconciler) poll(ctx context.Context) {
	tick := time.NewTicker(r.cfg.PollInterval)
	defer tick.Stop()
	defer func() { _ = r.store.Release(context.WithoutCancel(ctx), "poll", r.owner) }() // else it runs out
	for {
		if err := r.pollOnce(ctx); err != nil && ctx.Err() == nil && ReasonOf(err) != ReasonBackendUnavailable {
			r.log.ErrorContext(ctx, "the workspaces could not be listed", slog.Any("error", err))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (r *Reconciler) pollOnce(ctx context.Context) error {
	now := r.now()
	ok, err := r.store.Lease(ctx, "poll", r.owner, now, now.Add(3*r.cfg.PollInterval))
	if err != nil || !ok {
		return err
	}
	if err := r.snap.refresh(ctx); err != nil {
		return err
	}
	before := r.snap.all()
	workspaces, err := r.backend.List(ctx)
	r.reached(err)
	if err != nil {
		return err
	}
	r.observed.Store(r.now().UnixMilli())

	byUID, byID := map[string]*AgentView{}, map[string]*AgentView{}
	for _, v := range before {
		byUID[v.UID] = v
		if v.WorkspaceID != "" {
			byID[v.WorkspaceID] = v
		}
	}
	listed := map[string]bool{}
	for _, ws := range workspaces {
		v := byUID[ws.AgentUID]
		if v == nil {
			v = byID[ws.ID]
		}
		if v == nil {
			if err := r.adopt(ctx, ws); err != nil {
				return err
			}
			continue
		}
		listed[v.UID] = true
		if err := r.noticed(ctx, v, ws); err != nil {
			return err
		}
	}
	for _, v := range before {
		if listed[v.UID] || v.WorkspaceID == "" || !v.Settled() {
			continue
		}
		ws, err := r.backend.Inspect(ctx, v.Agent)
		if err != nil {
			return err
		}
		if ws.ID == "" {
			ws.ID = v.WorkspaceID
		}
		if err := r.noticed(ctx, v, ws); err != nil {
			return err
		}
	}
	return nil
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
		a.UpdatedAt = r.now()
		if a.State == StateDeleted {
			if err := r.vanish(tx, a); err != nil {
				return err
			}
			return tx.UpdateAgent(a)
		}
		if err := tx.UpdateAgent(a); err != nil {
			return err
		}
		return tx.Append(a.event(EventAgentChanged, a.UpdatedAt, stateText(a.State, a.StateReason)))
	})
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
		if same, err := tx.AgentsByName(ws.Name, ""); err != nil || len(same) > 0 {
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

// reached remembers whether the backend answered.
func (s *Service) reached(err error) {
	e, ok := errors.AsType[*Error](err)
	switch {
	case err == nil:
		s.down.Store(nil)
	case ok && e.Reason == ReasonBackendUnavailable:
		if s.down.Swap(e) == nil {
			s.log.Warn("the agents' host does not answer", slog.Any("error", err))
		}
	}
}

// available returns the error of a backend that did not answer when it was last asked: a caller who wants something
// done is told at once. Reads do not ask.
func (s *Service) available() error {
	e := s.down.Load()
	if e == nil {
		return nil
	}
	c := *e
	if c.RetryAfter == 0 {
		c.RetryAfter = s.cfg.PollInterval
	}
	return &c
}
