package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"fleet/internal/fleet"
)

const (
	pruneBatch = 500                   // how many rows each call of Store.Prune may remove
	prunePause = 50 * time.Millisecond // pause between two such calls
)

// prune periodically removes rows whose retention period is over, and lets the places remove expired files. Only one
// reconciler of the store removes rows at a time.
func (r *Reconciler) prune(ctx context.Context) {
	next := time.NewTimer(r.cfg.PruneEvery / 60) // not at once, to keep the start fast
	defer next.Stop()
	for {
		select {
		case <-next.C:
		case <-ctx.Done():
			return
		}
		next.Reset(r.cfg.PruneEvery)
		if err := errors.Join(r.tidyPlaces(ctx), r.pruneOnce(ctx)); err != nil && ctx.Err() == nil {
			r.log.ErrorContext(ctx, "pruning failed, retrying", slog.Any("error", err))
		}
	}
}

// pruneOnce removes the rows whose retention period is over. It does nothing if another reconciler is doing so. A negative
// retention means that the rows are kept forever. If one kind of rows cannot be removed, pruneOnce still removes the others.
func (r *Reconciler) pruneOnce(ctx context.Context) error {
	leaseCtx, release, ok, err := r.leases.hold(ctx, "prune")
	if err != nil || !ok {
		return err
	}
	defer release()
	var errs []error
	for _, k := range []struct {
		logKey    string
		retention time.Duration
		kind      fleet.PruneKind
	}{
		{"rows", r.cfg.Retention, fleet.PruneHistory},
		{"payloads", r.cfg.PayloadRetention, fleet.PrunePayloads},
		{"audit lines", r.cfg.AuditRetention, fleet.PruneAudit},
		{"deliveries", r.cfg.Webhooks.Retention, fleet.PruneDeliveries},
	} {
		if k.retention < 0 {
			continue
		}
		before := r.now().Add(-k.retention)
		removed, err := r.pruneAll(leaseCtx, k.kind, before)
		if removed > 0 {
			r.log.InfoContext(ctx, "removed after retention", slog.Int(k.logKey, removed), slog.Time("before", before))
		}
		errs = append(errs, err)
		if leaseCtx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

// pruneAll removes rows in small batches until nothing older than before is left, and returns the number of removed rows.
func (r *Reconciler) pruneAll(ctx context.Context, kind fleet.PruneKind, before time.Time) (removed int, err error) {
	for {
		n, err := r.store.Prune(ctx, kind, before, pruneBatch)
		removed += n
		if err != nil || n == 0 {
			return removed, err
		}
		if err := sleep(ctx, prunePause); err != nil {
			return removed, err
		}
	}
}

// tidyPlaces lets the places remove expired files.
func (r *Reconciler) tidyPlaces(ctx context.Context) error {
	var errs []error
	for _, p := range r.places.All {
		if t, ok := p.Place.(fleet.Tidier); ok {
			errs = append(errs, t.Tidy(ctx, r.now()))
		}
	}
	return errors.Join(errs...)
}
