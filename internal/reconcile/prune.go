package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"fleet/internal/fleet"
)

// These limit one round of pruning: rows of each kind, and the pause before the next round.
const (
	pruneBatch = 500
	prunePause = 50 * time.Millisecond
)

// prune periodically removes rows whose retention period is over, and lets its places remove expired files. Only one
// reconciler of the store removes rows.
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
		if err := errors.Join(r.expire(ctx), r.pruneOnce(ctx)); err != nil && ctx.Err() == nil {
			r.log.ErrorContext(ctx, "pruning failed, retrying", slog.Any("error", err))
		}
	}
}

func (r *Reconciler) pruneOnce(ctx context.Context) error {
	held, release, ok, err := r.leases.hold(ctx, "prune")
	if err != nil || !ok {
		return err
	}
	defer release()
	for _, kind := range []struct {
		what      string
		retention time.Duration
		prune     func(context.Context, time.Time, int) (int, error)
	}{
		{"rows", r.cfg.Retention, r.store.Prune},
		{"payloads", r.cfg.PayloadRetention, r.store.PrunePayloads},
		{"audit lines", r.cfg.AuditRetention, r.store.PruneAudit},
	} {
		if kind.retention < 0 {
			continue
		}
		before := r.now().Add(-kind.retention)
		removed, err := pruneAll(held, before, kind.prune)
		if removed > 0 {
			r.log.InfoContext(ctx, "removed after retention", slog.Int(kind.what, removed), slog.Time("before", before))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// pruneAll calls prune with small limits until nothing older than before is left, and returns the number of removed rows.
func pruneAll(ctx context.Context, before time.Time, prune func(context.Context, time.Time, int) (int, error)) (removed int, err error) {
	for {
		n, err := prune(ctx, before, pruneBatch)
		removed += n
		if err != nil || n == 0 {
			return removed, err
		}
		pause := time.NewTimer(prunePause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return removed, ctx.Err()
		}
	}
}

// expire lets the places remove expired files.
func (r *Reconciler) expire(ctx context.Context) error {
	var errs []error
	for _, p := range r.places.All {
		if t, ok := p.Place.(fleet.Tidier); ok {
			errs = append(errs, t.Tidy(ctx, r.now()))
		}
	}
	return errors.Join(errs...)
}
