package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"fleet/internal/fleet"
)

// provision creates the agent's workspace.
func (w *worker) provision(ctx context.Context, a *fleet.Agent) (_ time.Duration, err error) {
	ctx, end := w.cfg.Span(ctx, "agent.provision", a, nil)
	defer func() { end(err) }()
	w.cfg.Fault(FaultCreateCommitted)
	if a.State != fleet.StateStarting {
		if err := w.setState(ctx, fleet.StateStarting, "its workspace is being created", nil); err != nil {
			return 0, err
		}
	}
	w.cfg.Fault(FaultProvisionBefore)
	var ws fleet.Workspace
	err = w.slowCall(ctx, a, func(ctx context.Context) (err error) {
		ws, err = w.places.Of(a).Provision(ctx, *a)
		return err
	})
	if e := refusal(err); e != nil {
		return 0, w.recordRefusal(ctx, a, e)
	}
	if err != nil {
		return 0, w.recordFailure(ctx, a, err, fleet.StateFailed)
	}
	w.cfg.Fault(FaultProvisionAfter)
	restart := a.RestartsRequested // a was read before the call, so a restart that was requested during the call is still to be done
	return 0, w.recordWorkspace(ctx, ws, func(a *fleet.Agent) { completeRestart(a, restart) })
}

// completeRestart records that the restart with the number is done. If no other restart was requested meanwhile, the changes
// for the next start (Agent.Next) are done too.
func completeRestart(a *fleet.Agent, restart int) {
	if a.RestartsDone = restart; a.RestartsRequested == restart {
		if a.Next.TakeOver {
			a.Host.ForeignOwner = ""
		}
		a.Next = fleet.NextStart{}
	}
}

// recordWorkspace writes the observed state of the agent's workspace. If also is not nil, recordWorkspace calls it to make more
// changes to the agent in the same transaction. If the workspace was deleted at its host, the agent is deleted too.
func (w *worker) recordWorkspace(ctx context.Context, ws fleet.Workspace, also func(a *fleet.Agent)) error {
	return w.change(ctx, fleet.EventAgentChanged, func(a *fleet.Agent, tx fleet.Tx) (string, error) {
		applyWorkspace(a, ws)
		a.Attempts, a.RetryAt = 0, time.Time{}
		if also != nil {
			also(a)
		}
		if a.State == fleet.StateDeleted {
			return "", w.recordDeleted(tx, a, ws.Missing)
		}
		return stateText(a.State, a.StateReason), nil
	})
}

// applyWorkspace copies the observed state of the workspace to the agent. If the workspace belongs to another Fleet, the agent
// loses its requests to be stopped or restarted.
func applyWorkspace(a *fleet.Agent, ws fleet.Workspace) {
	a.WorkspaceID, a.State, a.StateReason = ws.ID, stateOf(a, ws), ws.Reason
	if ws.Location != "" {
		a.Location = ws.Location
	}
	if ws.Metadata != nil {
		a.Metadata = maps.Clone(ws.Metadata)
	}
	if a.Host = hostFacts(a, ws); a.Foreign() && a.Desired != fleet.DesiredDeleted {
		a.Desired, a.RestartsDone, a.Next = fleet.DesiredRunning, a.RestartsRequested, fleet.NextStart{} // this Fleet does not manage it
	}
	if hasOtherRole(a, ws) {
		a.Role = ws.Role
	}
	if completesAdoption(a, ws) {
		a.Role, a.Spec, a.Owner = ws.Role, ws.Spec, cmp.Or(ws.Owner, a.Owner)
	}
}

// stateOf derives the agent's state from its observed workspace. If the agent must be stopped and the host does not show the
// workspace, the workspace counts as stopped, so that nobody tries to stop it.
func stateOf(a *fleet.Agent, ws fleet.Workspace) fleet.State {
	if ws.Missing && ws.State != fleet.StateDeleted && a.Desired == fleet.DesiredStopped {
		return fleet.StateStopped
	}
	return ws.State
}

// hostFacts returns the facts about the agent's workspace after an observation. If the host does not show the workspace, all
// facts except MissingSince stay as they were.
func hostFacts(a *fleet.Agent, ws fleet.Workspace) fleet.HostFacts {
	if ws.Missing {
		h := a.Host
		h.MissingSince = ws.MissingSince
		return h
	}
	h := ws.Host
	h.Adopted = a.Host.Adopted
	if ws.ForeignOwnerUnknown {
		h.ForeignOwner = a.Host.ForeignOwner
	}
	return h
}

// completesAdoption reports whether the workspace has the fields that were missing when the agent was adopted. Such an agent has no
// role, and its spec and owner may be wrong.
func completesAdoption(a *fleet.Agent, ws fleet.Workspace) bool {
	return a.Role == "" && ws.Role != "" && a.Toolset == fleet.ToolsetFleet && a.Config == nil
}

// hasOtherRole reports whether somebody has changed the role of the workspace at its host. The agent then gets that role, so
// that the next start does not undo the change. hasOtherRole returns false if the next start is to change the role.
func hasOtherRole(a *fleet.Agent, ws fleet.Workspace) bool {
	return a.Role != "" && ws.Role != "" && a.Role != ws.Role && !ws.RoleUnknown && !a.Next.Role && a.Toolset == fleet.ToolsetFleet && a.Config == nil
}

// workspaceDiffers reports whether applyWorkspace would change the agent.
func workspaceDiffers(a *fleet.Agent, ws fleet.Workspace) bool {
	return completesAdoption(a, ws) || hasOtherRole(a, ws) || !a.Host.Equal(hostFacts(a, ws)) || a.WorkspaceID != ws.ID || a.State != stateOf(a, ws) || a.StateReason != ws.Reason ||
		ws.Location != "" && a.Location != ws.Location || ws.Metadata != nil && !maps.Equal(a.Metadata, ws.Metadata)
}

// inspect returns the state of the agent's workspace from its place.
func (w *worker) inspect(ctx context.Context, a *fleet.Agent) (ws fleet.Workspace, err error) {
	err = w.shortCall(ctx, a, func(ctx context.Context) (err error) {
		ws, err = w.places.Of(a).Inspect(ctx, *a)
		return err
	})
	return ws, err
}

// inspectWorkspace inspects a workspace whose state is changing, and records the state.
func (w *worker) inspectWorkspace(ctx context.Context, a *fleet.Agent) (time.Duration, error) {
	ws, err := w.inspect(ctx, a)
	if err != nil {
		return 0, w.recordFailure(ctx, a, err, "")
	}
	if ws.ID == "" {
		ws.ID = a.WorkspaceID
	}
	if ws.Missing { // the host may show it again later
		return 0, w.recordFailure(ctx, a, fleet.Errorf(fleet.ReasonBackendUnavailable, "%s", ws.Reason), "")
	}
	// The host may not show the last request yet.
	if ws.State == a.State || a.State == fleet.StateStopping && ws.State == fleet.StateRunning {
		w.inspectDelay = min(max(w.inspectDelay*3/2, minInspectDelay), maxInspectDelay)
		if workspaceDiffers(a, ws) && ws.State == a.State {
			return w.inspectDelay, w.recordWorkspace(ctx, ws, nil)
		}
		if a.State == fleet.StateStopping && ws.State == fleet.StateRunning && w.inspectDelay == maxInspectDelay {
			return 0, w.recordWorkspace(ctx, ws, nil) // the stop had no effect: stop it again
		}
		return w.inspectDelay, nil
	}
	w.inspectDelay = 0
	return 0, w.recordWorkspace(ctx, ws, nil)
}

// stopWorkspace stops the agent's workspace.
func (w *worker) stopWorkspace(ctx context.Context, a *fleet.Agent) (_ time.Duration, err error) {
	ctx, end := w.cfg.Span(ctx, "agent.stop", a, nil)
	defer func() { end(err) }()
	if err := w.setState(ctx, fleet.StateStopping, "", nil); err != nil {
		return 0, err
	}
	w.cfg.Fault(FaultAgentStopBefore)
	if err := w.slowCall(ctx, a, func(ctx context.Context) error { return w.places.Of(a).Stop(ctx, *a) }); err != nil {
		return 0, w.recordFailure(ctx, a, err, "")
	}
	w.cfg.Fault(FaultAgentStopAfter)
	stopping := *a
	stopping.State, stopping.StateReason = fleet.StateStopping, ""
	return w.inspectWorkspace(ctx, &stopping)
}

// startWorkspace starts the agent's workspace, which is stopped.
func (w *worker) startWorkspace(ctx context.Context, a *fleet.Agent) (_ time.Duration, err error) {
	ctx, end := w.cfg.Span(ctx, "agent.start", a, nil)
	defer func() { end(err) }()
	if err := w.setState(ctx, fleet.StateStarting, "", nil); err != nil {
		return 0, err
	}
	w.cfg.Fault(FaultAgentStartBefore)
	restart := a.RestartsRequested
	if err := w.slowCall(ctx, a, func(ctx context.Context) error { return w.places.Of(a).Start(ctx, *a) }); err != nil {
		return 0, w.recordFailure(ctx, a, err, fleet.StateFailed)
	}
	w.cfg.Fault(FaultAgentStartAfter)
	return 0, w.setState(ctx, fleet.StateStarting, "", func(a *fleet.Agent) {
		completeRestart(a, restart)
		a.Attempts, a.RetryAt = 0, time.Time{}
	})
}

// maxLinger is how long a run may continue after its task has ended, to finish work that it has begun, such as a
// request to its model.
const maxLinger = 2 * time.Minute

// stepLinger interrupts the run of an agent that is being deleted, if that was not done yet. It returns how long to wait
// before the next call, so that the run can finish what it has begun. 0 means that the workspace can be deleted. The waits end
// maxLinger after the task has ended. There is no wait unless the agent ends its only task with agent_complete
// (AgentConfig.Reports), the task has ended, and this worker still follows the run.
//
// The server that ended the task also interrupts the run, if it can reach the place. If the place is bound to this server's
// machine, other servers cannot reach it, so the worker interrupts the run at once. Otherwise the worker first waits for
// interruptTimeout. It does not know whether another server has interrupted the run, so it then interrupts the run itself,
// unless this server has already done so.
func (w *worker) stepLinger(ctx context.Context, v *fleet.AgentView) time.Duration {
	a := &v.Agent
	if w.follower == nil || v.Task != nil || !a.OneTask || a.Config == nil || !a.Config.Reports {
		return 0
	}
	if isClosed(w.follower.done) {
		return 0
	}
	timeLeft := max(a.UpdatedAt.Add(maxLinger).Sub(w.now()), 0)
	// An interrupt from before the end of the dispatch does not count, because the run may not have existed then.
	if run := w.interrupted.Load(); run != nil && run.taskID == w.follower.taskID && run.at.After(w.follower.startedAt) {
		return timeLeft
	}
	_, server := fleet.SplitPlace(a.Place)
	if wait := a.UpdatedAt.Add(interruptTimeout).Sub(w.now()); server == "" && wait > 0 {
		return wait
	}
	start := time.Now()
	if err := w.interruptRun(ctx, *a, w.follower.run); err != nil {
		w.log.WarnContext(ctx, "run of ended task not interrupted, retrying", slog.String("task", w.follower.taskID), slog.Any("error", err))
		return min(timeLeft, minRetryDelay)
	}
	w.interrupted.Store(&interruptedRun{w.follower.taskID, start})
	return timeLeft
}

// delete saves the agent's work, deletes its workspace, and records that the agent is deleted and its task stopped. It returns
// how long to wait before the next call if it has to wait for one of these.
func (w *worker) delete(ctx context.Context, v *fleet.AgentView) (_ time.Duration, err error) {
	a := &v.Agent
	if d := w.stepLinger(ctx, v); d > 0 {
		return d, nil
	}
	if d, err := w.checkContract(ctx, a); d > 0 || err != nil {
		return d, err
	}
	ctx, end := w.cfg.Span(ctx, "agent.delete", a, nil)
	defer func() { end(err) }()
	w.stopFollowing() // otherwise the end of its run would be recorded as a failure
	if a.State != fleet.StateDeleting {
		if err := w.setState(ctx, fleet.StateDeleting, "", nil); err != nil {
			return 0, err
		}
	}
	if err := w.saveLastChanges(ctx, a); err != nil {
		return 0, err
	}
	if d, err := w.saveWork(ctx, a); d > 0 || err != nil {
		return d, err
	}
	w.cfg.Fault(FaultDeleteBefore)
	var kept string
	err = w.slowCall(ctx, a, func(ctx context.Context) (err error) {
		kept, err = w.places.Of(a).Delete(ctx, *a)
		return err
	})
	if err != nil {
		return 0, w.recordFailure(ctx, a, err, "")
	}
	w.cfg.Fault(FaultDeleteAfter)
	return 0, w.change(ctx, fleet.EventAgentDeleted, func(a *fleet.Agent, tx fleet.Tx) (string, error) {
		if err := w.endRunningTask(tx, a, fleet.Outcome{Status: fleet.TaskStopped, Reason: "its agent was deleted"}); err != nil {
			return "", err
		}
		remains, err := tx.Remains(a.UID)
		if err != nil {
			return "", err
		}
		a.State, a.StateReason, a.DeletedAt = fleet.StateDeleted, remainsText(remains, a.Name, kept), w.now()
		if a.StateReason != "" {
			return "agent deleted; " + a.StateReason, nil
		}
		return "agent deleted", nil
	})
}

// recordDeleted records that the agent is deleted, because its workspace was deleted outside Fleet or, if missing is set, because
// its host has not shown it for missingRetention.
func (r *Reconciler) recordDeleted(tx fleet.Tx, a *fleet.Agent, missing bool) error {
	now, reason := r.now(), "its workspace was deleted at its host"
	if missing {
		reason = fmt.Sprintf("its host has not shown its workspace for %d days", int(missingRetention.Hours()/24))
	}
	if err := r.endRunningTask(tx, a, fleet.Outcome{Status: fleet.TaskFailed, Reason: reason, ReasonCode: fleet.CodePlaceLost}); err != nil {
		return err
	}
	a.State, a.Desired, a.StateReason, a.DeletedAt, a.UpdatedAt = fleet.StateDeleted, fleet.DesiredDeleted, reason, now, now
	if err := tx.Update(a); err != nil {
		return err
	}
	return tx.Append(a.Event(fleet.EventAgentDeleted, now, a.StateReason))
}
