package reconcile

import (
	"context"
	"log/slog"
	"time"

	"fleet/internal/fleet"
)

// contractMayHaveChecks reports whether the agent works under a contract, in a place that supports checks.
func (w *worker) contractMayHaveChecks(a *fleet.Agent) bool {
	return underContract(a) && w.places.Of(a).Traits().SupportsChecks
}

// checkContract runs the checks of a completed contract before the agent is deleted. Their results are only recorded,
// because the agent's report is final. It returns how long to wait before the next call; 0 means that the agent can be
// deleted.
func (w *worker) checkContract(ctx context.Context, a *fleet.Agent) (time.Duration, error) {
	if !a.OneTask || w.contractChecked || !w.contractMayHaveChecks(a) {
		return 0, nil
	}
	if f := w.follower; f != nil && f.checks != nil {
		select {
		case <-f.done:
		default:
			return maxRetryDelay, nil // the worker wakes up when they have ended
		}
		if f.err != nil {
			w.log.WarnContext(ctx, "contract checks not completed", slog.String("task", f.taskID), slog.Any("error", f.err))
		}
		w.follower, w.contractChecked = nil, true
		return 0, nil
	}
	var last []*fleet.Task
	var record *fleet.TaskChecks
	if err := w.store.View(ctx, func(tx fleet.ReadTx) (err error) {
		if last, err = tx.LastTasks([]string{a.UID}); err != nil || len(last) == 0 {
			return err
		}
		record, err = tx.Checks(last[0].ID)
		return err
	}); err != nil {
		return 0, err
	}
	w.contractChecked = len(last) == 0 || last[0].Status != fleet.TaskCompleted || last[0].DispatchedAt.IsZero()
	if w.contractChecked {
		return 0, nil
	}
	t := last[0]
	checks, err := w.checksOf(ctx, a, record)
	if err != nil {
		w.log.WarnContext(ctx, "contract checks not known", slog.String("task", t.ID), slog.Any("error", err))
		if fleet.ReasonOf(err) == fleet.ReasonBackendUnavailable { // the deletion of the agent also has to wait for its place
			return maxInspectDelay, nil
		}
	}
	if w.contractChecked = len(checks.Commands) == 0; w.contractChecked {
		return 0, nil
	}
	w.stopFollowing()
	w.endRun(ctx, a, t)
	if err := w.saveChanges(ctx, a, t); err != nil {
		return 0, err
	}
	w.startChecks(ctx, a, t, checks, fleet.Outcome{})
	return maxRetryDelay, nil
}
