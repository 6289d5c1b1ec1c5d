package reconcile

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"fleet/internal/fleet"
)

const (
	// inspectTimeout limits how long a place may take to inspect the workspaces that it did not list.
	inspectTimeout = 5 * time.Second
	// maxInspected limits how many of these workspaces are inspected after one listing.
	maxInspected = 64
	// maxDeletedAtOnce is how many workspaces of a place may disappear at once. If its host reports that more were deleted,
	// something may be wrong with the host. They then count as missing, not as deleted.
	maxDeletedAtOnce = 3
	// missingRetention is how long an agent is kept while its workspace is missing.
	missingRetention = 7 * 24 * time.Hour
)

// lookForMissing inspects the workspaces of the agents, because a listing of their place did not have them, and records what it
// finds. An agent counts as deleted only if the host reports that its workspace was deleted, or if the workspace was missing for
// missingRetention.
func (r *Reconciler) lookForMissing(ctx context.Context, agents []*fleet.AgentView) error {
	rand.Shuffle(len(agents), func(i, j int) { agents[i], agents[j] = agents[j], agents[i] }) // so that each is inspected sooner or later
	agents = agents[:min(len(agents), maxInspected)]
	workspaces, errs := r.inspectAll(ctx, agents)
	deleted := 0
	for i := range workspaces {
		if errs[i] == nil && workspaces[i].State == fleet.StateDeleted {
			deleted++
		}
	}
	for i, v := range agents {
		ws := workspaces[i]
		if errs[i] != nil {
			continue
		}
		if ws.State == fleet.StateDeleted && deleted > maxDeletedAtOnce {
			ws.State, ws.Missing = fleet.StateUnhealthy, true
			ws.Reason = fmt.Sprintf("its host says that more than %d workspaces were deleted at once, this one too: delete the agent if that is right", maxDeletedAtOnce)
		}
		if ws.Missing {
			if ws.MissingSince = v.Host.MissingSince; ws.MissingSince.IsZero() {
				ws.MissingSince = r.now()
			}
			if r.now().Sub(ws.MissingSince) > missingRetention {
				ws.State = fleet.StateDeleted
			}
		}
		errs[i] = r.recordObserved(ctx, v, ws)
	}
	return errors.Join(errs...)
}

// inspectAll inspects the agents' workspaces, several at a time. The results have the order of the agents.
func (r *Reconciler) inspectAll(ctx context.Context, agents []*fleet.AgentView) ([]fleet.Workspace, []error) {
	ctx, cancel := context.WithTimeout(ctx, min(r.cfg.CallTimeout, inspectTimeout))
	defer cancel()
	workspaces, errs := make([]fleet.Workspace, len(agents)), make([]error, len(agents))
	var inspections sync.WaitGroup
	for i, v := range agents {
		select {
		case r.callSlots <- struct{}{}:
		case <-ctx.Done():
			errs[i] = ctx.Err()
			continue
		}
		inspections.Go(func() {
			defer func() { <-r.callSlots }()
			workspaces[i], errs[i] = r.places.Of(&v.Agent).Inspect(ctx, v.Agent)
			if workspaces[i].ID == "" {
				workspaces[i].ID = v.WorkspaceID
			}
		})
	}
	inspections.Wait()
	return workspaces, errs
}

// recordUnknown records that nothing is known about the agents' workspaces, and why. This time does not count
// towards missingRetention, because nobody can look for the workspaces.
func (r *Reconciler) recordUnknown(ctx context.Context, agents []*fleet.AgentView, reason string) error {
	var errs []error
	for _, v := range agents {
		if v.WorkspaceID != "" {
			errs = append(errs, r.recordObserved(ctx, v, fleet.Workspace{ID: v.WorkspaceID, State: fleet.StateUnhealthy, Missing: true, Reason: reason}))
		}
	}
	return errors.Join(errs...)
}

// restoreDeleted brings back an agent that was recorded as deleted, because its host lists its workspace.
func (r *Reconciler) restoreDeleted(tx fleet.Tx, a *fleet.Agent, ws fleet.Workspace) error {
	a.Desired, a.DeletedAt, a.UpdatedAt = fleet.DesiredRunning, time.Time{}, r.now()
	a.RestartsDone, a.Attempts, a.RetryAt = a.RestartsRequested, 0, time.Time{}
	applyWorkspace(a, ws)
	if err := tx.Update(a); err != nil {
		return err
	}
	remains, err := tx.RemainsWithBundle(a.UID)
	if err == nil && remains != nil && remains.LostWork == "" { // so that the next deletion fetches its work again
		remains.LostWork = "what it did after it came back"
		err = tx.Put(a.UID, remains)
	}
	if err != nil {
		return err
	}
	return tx.Append(a.Event(fleet.EventAgentCreated, a.UpdatedAt, "agent is back: it was recorded as deleted, but its host has its workspace"))
}
