package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/state"
)

// remainsText tells people which work of the deleted agent is kept and which may be lost. kept is the place's description of
// the work that the place has kept.
func remainsText(r *fleet.Remains, agent, kept string) string {
	texts := []string{kept}
	if r != nil && r.Size > 0 {
		texts = append(texts, fmt.Sprintf("what it had not pushed is kept: fleet agent rescue %s", agent))
	}
	if r != nil && r.LostWork != "" {
		texts = append(texts, "may be lost: "+r.LostWork)
	}
	return strings.Join(slices.DeleteFunc(texts, fleet.IsBlank), "; ")
}

// rescueTimeout limits how long a deletion waits for a workspace that is started to fetch the work in it, and then for a workspace
// that it has started and cannot reach.
const rescueTimeout = 10 * time.Minute

// reachTimeout limits how long a deletion waits for a workspace that runs and cannot be reached.
const reachTimeout = time.Minute

// rescueReason is the StateReason of an agent that is being deleted while its workspace is started to fetch the work in it.
const rescueReason = "its workspace is started first, to fetch the work in it"

// saveWork stores a bundle of the agent's work that exists nowhere else, before the workspace is deleted. It does nothing if
// the place keeps the work itself or supports no bundles. It starts a stopped workspace, and waits for one that cannot be
// reached: wait is then how long to wait before the next call. If that does not help, saveWork records which work may be lost,
// and the workspace can be deleted.
func (w *worker) saveWork(ctx context.Context, a *fleet.Agent) (wait time.Duration, err error) {
	traits := w.places.Of(a).Traits()
	if !traits.SupportsBundles || traits.KeepsWork || a.WorkspaceID == "" {
		return 0, nil
	}
	var remains *fleet.Remains
	var last []*fleet.Task
	var changes *fleet.Changes
	if err := w.store.View(ctx, func(tx fleet.ReadTx) (err error) {
		if remains, err = tx.Remains(a.UID); err != nil {
			return err
		}
		if last, err = tx.LastTasks([]string{a.UID}); err != nil || len(last) == 0 {
			return err
		}
		dispatched, err := tx.DispatchedTasks(a.UID, 1) // the newest task may have waited for the agent, and changed nothing
		if err == nil && len(dispatched) > 0 {
			changes, err = tx.Changes(dispatched[0].ID)
		}
		return err
	}); err != nil || remains != nil && remains.LostWork == "" {
		return 0, err // stored before a crash
	}
	content, err := w.places.Bundle(ctx, a)
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	switch fleet.ReasonOf(err) {
	case fleet.ReasonAgentOffline:
		wait, nothingToLose, err := w.startForRescue(ctx, a, len(last) > 0)
		if err != nil || nothingToLose || wait > 0 {
			return wait, err
		}
	case fleet.ReasonBackendUnavailable: // perhaps for a moment only
		if wait, err := w.stepUnreachable(ctx, a, err); err != nil || wait > 0 {
			return wait, err
		}
	}
	r := &fleet.Remains{KeptAt: w.now(), Bundle: content}
	if err != nil {
		w.log.WarnContext(ctx, "the work of an agent could not be kept", slog.String("agent", a.Name), slog.Any("error", err))
		r.Bundle, r.LostWork = nil, w.lossReason(err)+unpushedText(changes)
	}
	put := func() error {
		return w.store.Update(ctx, func(tx fleet.Tx) error { return tx.Put(a.UID, r) })
	}
	err = put()
	if errors.Is(err, fleet.ErrStoreFull) {
		r.LostWork = "the disk of the server's data is full, so what the agent had not pushed is not kept" + unpushedText(changes)
		r.Bundle = nil
		err = put()
	}
	return 0, err
}

// stepUnreachable handles a workspace that a deletion cannot reach. It records that the deletion waits, for at most reachTimeout, or
// rescueTimeout if the deletion has started the workspace, because its programs may need time to start. wait is how long to wait
// before the bundle is tried again. 0 means that the time is over, or that the host does not show the workspace. The deletion of the
// agent does not delete a workspace that is not shown.
func (w *worker) stepUnreachable(ctx context.Context, a *fleet.Agent, why error) (wait time.Duration, err error) {
	if w.unreachableSince.IsZero() {
		if ws, err := w.inspect(ctx, a); err == nil && ws.Missing {
			return 0, nil
		}
		w.unreachableSince = w.now()
		reason := "its work is fetched first, but its workspace cannot be reached: " + fleet.PublicMessage(why)
		if err := w.setState(ctx, fleet.StateDeleting, reason, nil); err != nil {
			return 0, err
		}
	}
	limit := reachTimeout
	if w.startedForRescue {
		limit = rescueTimeout
	}
	if w.now().Sub(w.unreachableSince) > limit {
		return 0, nil
	}
	return maxInspectDelay, nil
}

// startForRescue starts the workspace of an agent that is to be deleted, so that its work can be fetched, for at most
// rescueTimeout. hadTask says whether the agent ever had a task. wait is how long to wait before the bundle is tried again; 0
// means that nothing more can be done. nothingToLose means that the workspace was deleted, or hadTask is false
// and the workspace has not started by itself.
func (w *worker) startForRescue(ctx context.Context, a *fleet.Agent, hadTask bool) (wait time.Duration, nothingToLose bool, err error) {
	if w.rescueSince.IsZero() {
		w.rescueSince = w.now()
	}
	if w.now().Sub(w.rescueSince) > rescueTimeout {
		return 0, false, nil
	}
	ws, err := w.inspect(ctx, a)
	if err != nil {
		return minRetryDelay, false, w.recordFailure(ctx, a, err, "")
	}
	switch ws.State {
	case fleet.StateDeleted:
		return 0, true, nil
	case fleet.StatePending, fleet.StateStarting, fleet.StateFailed, fleet.StateCanceling, fleet.StateCanceled:
		if !hadTask && !w.startedForRescue && a.StateReason != rescueReason {
			return 0, true, nil
		}
	}
	switch ws.State {
	case fleet.StateStopped, fleet.StateFailed, fleet.StateCanceled:
		if w.startedForRescue { // it has stopped or failed again
			return 0, false, nil
		}
		if err := w.setState(ctx, fleet.StateDeleting, rescueReason, nil); err != nil {
			return 0, false, err
		}
		err := w.slowCall(ctx, a, func(ctx context.Context) error { return w.places.Of(a).Start(ctx, *a) })
		if err != nil {
			w.log.WarnContext(ctx, "workspace not started to fetch the work in it", slog.String("agent", a.Name), slog.Any("error", err))
			return 0, false, ctx.Err()
		}
		w.startedForRescue = true
	case fleet.StateUnhealthy:
		return 0, false, nil
	}
	return maxInspectDelay, false, nil
}

// lossReason tells people which work may be lost with a workspace, and why. err is the error of its bundle.
func (r *Reconciler) lossReason(err error) string {
	switch {
	case errors.Is(err, state.ErrBundleTooLarge):
		return fmt.Sprintf("what the agent had not pushed is more than %d bytes and is not kept", r.cfg.MaxBundle)
	case fleet.ReasonOf(err) == fleet.ReasonUnimplemented:
		return "Fleet cannot look into its workspace, so what the agent had not pushed is not kept"
	}
	return "its workspace could not be reached (" + fleet.PublicMessage(err) + "), so what the agent had not pushed is not kept"
}

// unpushedText describes the work that may be lost, as the end of a sentence. c are the last known changes. The text is empty
// if they are unknown.
func unpushedText(c *fleet.Changes) string {
	switch {
	case c == nil || c.Problem != "":
		return ""
	case c.Dirty && !c.Pushed:
		return fmt.Sprintf(": its last task left commits on %q that no remote has, and changes that it did not commit", c.Branch)
	case c.Dirty:
		return fmt.Sprintf(": its last task left changes on %q that it did not commit", c.Branch)
	case !c.Pushed:
		return fmt.Sprintf(": its last task left commits on %q that no remote has", c.Branch)
	}
	return "; its last task had pushed everything"
}
