package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/state"
)

// poll lists the place's workspaces periodically to notice changes from outside Fleet. Only one reconciler of the store
// polls a place. Each place has its own poll, so that no place waits for another.
func (r *Reconciler) poll(ctx context.Context, p *state.ManagedPlace) {
	tick := time.NewTicker(p.Interval)
	defer tick.Stop()
	defer func() { _ = r.store.ReleaseLease(context.WithoutCancel(ctx), p.PollKey(), r.pollOwner()) }() // otherwise other processes would wait until it expires
	var request chan<- struct{}                                                                         // from the call of PollNow that waits for the next listing
	for {
		if err := r.pollOnce(ctx, p); err != nil && ctx.Err() == nil && p.ListingError() == nil { // a listing error is logged elsewhere, once
			r.log.ErrorContext(ctx, "poll failed", slog.String("place", p.Name), slog.Any("error", err))
		}
		if request != nil {
			close(request)
			request = nil
		}
		select {
		case <-tick.C:
		case request = <-r.pollRequests[p]:
		case <-ctx.Done():
			return
		}
	}
}

// PollNow makes this process poll the place with the name now, and waits until that has succeeded or failed. If another process polls
// the place, only the health of the place is read. PollNow does nothing if this process has no such place. It returns early if ctx is
// done or the reconciler stops.
func (r *Reconciler) PollNow(ctx context.Context, name string) {
	p := r.places.Configured(name)
	if p == nil {
		return
	}
	done := make(chan struct{})
	select {
	case r.pollRequests[p] <- done:
	case <-r.stopping:
		return
	case <-ctx.Done():
		return
	}
	select {
	case <-done:
	case <-r.stopping:
	case <-ctx.Done():
	}
}

// pollOwner returns the owner of the polling leases. They have their own owner, because the renewal of the other leases must
// not renew them.
func (r *Reconciler) pollOwner() string { return "poll/" + r.leases.owner }

// pollOnce lists the place's workspaces and records the result, if no other process does. A place that is only for other toolsets is
// listed only while it has agents.
func (r *Reconciler) pollOnce(ctx context.Context, p *state.ManagedPlace) error {
	if err := r.snap.Refresh(ctx); err != nil {
		return err
	}
	if !p.OfFleet && !slices.ContainsFunc(r.snap.All(), func(v *fleet.AgentView) bool { return v.Place == p.Name }) {
		return nil
	}
	epoch, err := r.store.AcquireLease(ctx, p.PollKey(), r.pollOwner(), 3*p.Interval)
	if err != nil {
		return err
	}
	if epoch == 0 {
		return p.SyncHealth(ctx, r.cfg.CallTimeout)
	}
	ctx = fleet.WithLease(ctx, fleet.Lease{Key: p.PollKey(), Epoch: epoch})
	if err := r.snap.Refresh(ctx); err != nil {
		return err
	}
	before := slices.DeleteFunc(slices.Clone(r.snap.All()), func(v *fleet.AgentView) bool { return r.places.Configured(v.Place) != p })
	listedAt := r.now()
	workspaces, err := r.list(ctx, p)
	if errors.Is(err, fleet.ErrOtherIdentity) {
		err = errors.Join(err, r.recordUnknown(ctx, before, fleet.PublicMessage(err)))
	}
	if err != nil {
		return err
	}
	return r.recordListing(ctx, p, before, workspaces, listedAt)
}

// recordListing records the workspaces of a listing of the place, which began at listedAt. before has the agents that
// the place had before the listing.
func (r *Reconciler) recordListing(ctx context.Context, p *state.ManagedPlace, before []*fleet.AgentView, workspaces []fleet.Workspace, listedAt time.Time) error {
	byUID, byWorkspaceID := map[string]*fleet.AgentView{}, map[string]*fleet.AgentView{}
	for _, v := range before {
		byUID[v.UID] = v
		if v.WorkspaceID != "" {
			byWorkspaceID[v.WorkspaceID] = v
		}
	}
	var errs []error // a problem with one agent must not hide others
	listedUIDs := map[string]bool{}
	complete, hiddenCount := true, int64(0) // complete means that the store has every listed agent
	for _, ws := range workspaces {
		v := byUID[ws.AgentUID]
		if v == nil {
			v = byWorkspaceID[ws.ID]
		}
		if v == nil {
			if slices.ContainsFunc(before, func(other *fleet.AgentView) bool {
				return other.WorkspaceID == "" && p.NameTakenBy(&other.Agent, ws.Name, ws.Owner)
			}) {
				continue // probably made for this agent, which may have been deleted since the listing: the next listing will show it
			}
			nameHolder, err := r.adopt(ctx, p, ws, listedAt)
			complete = complete && err == nil && !awaitsName(p, ws)
			errs = append(errs, err)
			if nameHolder != "" {
				hiddenCount++
				if hiddenCount > p.HiddenCount() {
					r.log.WarnContext(ctx, "workspace is not shown: an agent of another place has its name",
						slog.String("place", p.Name), slog.String("name", ws.Name), slog.String("owner", ws.Owner), slog.String("other", nameHolder))
				}
			}
			continue
		}
		listedUIDs[v.UID] = true
		errs = append(errs, r.recordObserved(ctx, v, ws))
	}
	p.SetHiddenCount(hiddenCount)
	if complete || !p.ObservedAt().IsZero() {
		errs = append(errs, p.RecordListingStored(ctx, listedAt))
	}
	missing := slices.DeleteFunc(before, func(v *fleet.AgentView) bool {
		return listedUIDs[v.UID] || v.WorkspaceID == "" || !v.Settled()
	})
	return errors.Join(append(errs, r.lookForMissing(ctx, missing))...)
}

// list lists the workspaces of the place, and records whether the listing succeeded.
func (r *Reconciler) list(ctx context.Context, p *state.ManagedPlace) ([]fleet.Workspace, error) {
	timeoutCtx, cancel := context.WithTimeout(ctx, r.cfg.CallTimeout)
	defer cancel()
	workspaces, err := p.List(timeoutCtx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fleet.Errorf(fleet.ReasonBackendUnavailable, "%s did not list its workspaces within %s", p.Name, r.cfg.CallTimeout).WithCause(err)
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		p.RecordListingFailure(err)
		return nil, err
	}
	p.RecordListingSuccess()
	return workspaces, nil
}

// recordObserved records the observed state of a workspace, unless a worker handles its agent or the agent has changed since v
// was read: the observation may then be outdated.
func (r *Reconciler) recordObserved(ctx context.Context, v *fleet.AgentView, ws fleet.Workspace) error {
	if !v.Settled() || !workspaceDiffers(&v.Agent, ws) {
		return nil
	}
	return r.store.Update(ctx, func(tx fleet.Tx) error {
		a, err := tx.Agent(v.UID)
		if err != nil || a == nil || a.Revision != v.Revision || !a.DeletedAt.IsZero() {
			return err
		}
		applyWorkspace(a, ws)
		if a.Desired == fleet.DesiredStopped && v.WorkspaceID != "" && (a.State == fleet.StateRunning || a.State == fleet.StateStarting) {
			a.Desired = fleet.DesiredRunning // somebody started it without Fleet
		}
		a.UpdatedAt = r.now()
		if a.State == fleet.StateDeleted {
			return r.recordDeleted(tx, a, ws.Missing)
		}
		if err := tx.Update(a); err != nil {
			return err
		}
		return tx.Append(a.Event(fleet.EventAgentChanged, a.UpdatedAt, stateText(a.State, a.StateReason)))
	})
}

// awaitsName reports whether the workspace hosts an agent that cannot be adopted yet, because the place has not read enough
// about it.
func awaitsName(p *state.ManagedPlace, ws fleet.Workspace) bool {
	return p.Adopts() && ws.Name == "" && ws.State != fleet.StateDeleted && ws.State != fleet.StateDeleting
}

// adopt adds the agent of a workspace that has no agent in the store. If the store has a deleted agent of the workspace, that
// agent comes back. If an agent of another place has the name, adopt does nothing and returns the name of that place. listedAt is
// when the listing of the workspace began.
func (r *Reconciler) adopt(ctx context.Context, p *state.ManagedPlace, ws fleet.Workspace, listedAt time.Time) (nameHolder string, err error) {
	if !p.Adopts() || ws.Name == "" || ws.State == fleet.StateDeleted || ws.State == fleet.StateDeleting {
		return "", nil
	}
	adopted := false
	err = r.store.Update(ctx, func(tx fleet.Tx) error {
		nameHolder, adopted = "", false
		previous, err := fleet.First(tx.Agents(fleet.AgentFilter{Place: p.Name, WorkspaceID: ws.ID}))
		if err != nil || previous != nil && (previous.DeletedAt.IsZero() || !previous.DeletedAt.Before(listedAt)) {
			return err // its workspace may have been deleted since the listing began
		}
		if namesake, err := p.AgentWithName(tx, ws.Name, ws.Owner); err != nil || namesake != nil {
			if namesake != nil && namesake.Place != p.Name { // in the same place, the agent is just being created
				nameHolder = namesake.Place
			}
			return err
		}
		now := r.now()
		if previous != nil {
			return r.restoreDeleted(tx, previous, ws)
		}
		a := &fleet.Agent{
			UID: ws.AgentUID, Name: ws.Name, Owner: ws.Owner, Place: p.Name, Project: ws.Project, Role: ws.Role, Spec: ws.Spec,
			Desired: fleet.DesiredRunning, CreatedAt: ws.CreatedAt, UpdatedAt: now,
		}
		switch uidHolder, err := tx.Agent(a.UID); {
		case err != nil || uidHolder != nil && uidHolder.DeletedAt.IsZero():
			return err
		case a.UID == "" || uidHolder != nil: // the workspace of a deleted agent was created after all
			a.UID = r.cfg.NewID()
		}
		if a.CreatedAt.IsZero() {
			a.CreatedAt = now
		}
		applyWorkspace(a, ws)
		a.Host.Adopted = true
		if err := tx.Insert(a); err != nil {
			return err
		}
		adopted = true
		return tx.Append(a.Event(fleet.EventAgentCreated, now, "agent adopted: its workspace was found at its host"))
	})
	if fleet.ReasonOf(err) == fleet.ReasonAgentExists {
		adopted, err = false, nil
	}
	if adopted && err == nil {
		r.log.InfoContext(ctx, "agent adopted, its workspace was found at its host", slog.String("place", p.Name), slog.String("agent", ws.Name),
			slog.String("owner", ws.Owner), slog.String("workspace", ws.ID), slog.String("belongs_to", ws.Host.ForeignOwner))
	}
	return nameHolder, err
}
