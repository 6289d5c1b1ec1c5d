package reconcile

import (
	"context"
	"log/slog"

	"fleet/internal/fleet"
)

// knownAllowance is the allowance that the host of a run knows.
type knownAllowance struct {
	run    string // Run.TaskID
	amount fleet.Amount
}

// stepAllowance sends the run's allowance to the agent's host if it has changed. It does nothing for a run without an
// allowance. retry reports whether the call failed and must be repeated.
func (w *worker) stepAllowance(ctx context.Context, a *fleet.Agent, t *fleet.Task) (retry bool) {
	run := t.Run()
	run.Allowance = t.Allowance()
	current := knownAllowance{run.TaskID, run.Allowance}
	if current == w.allowance || run.Allowance == (fleet.Amount{}) {
		return false
	}
	if err := w.shortCall(ctx, a, func(ctx context.Context) error { return fleet.SetAllowance(ctx, w.places.Of(a).Connect(*a), run) }); err != nil {
		w.log.WarnContext(ctx, "the run does not know what it may use, retrying", slog.String("task", t.ID), slog.Any("error", err))
		return true
	}
	w.allowance = current
	return false
}
