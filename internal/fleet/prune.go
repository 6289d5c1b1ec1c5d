package fleet

import (
	"context"
	"log/slog"
	"time"
)

// How much is pruned at a time, in rows of each kind, and how long others get in between.
const (
	pruneBatch = 500
	prunePause = 50 * time.Millisecond
)

// prune removes what is older than Config.Retention, now and then. One reconciler on a store does it.
func (r *Reconciler) prune(ctx context.Context) {
	if r.cfg.Retention < 0 {
		return
	}
	next := time.NewTimer(r.cfg.PruneEvery / 60) // not while everything starts
	defer next.Stop()
	for {
		select {
		case <-next.C:
		case <-ctx.Done():
			return
		}
		next.Reset(r.cfg.PruneEvery)
		if err := r.pruneOnce(ctx); err != nil && ctx.Err() == nil {
			r.log.ErrorContext(ctx, "what is old could not be removed, and is tried again", slog.Any("error", err))
		}
	}
}

func (r *Reconciler) pruneOnce(ctx context.Context) error {
	held, release, ok, err := r.hold(ctx, "prune")
	if err != nil || !ok {
		return err
	}
	defer release()
	before := r.now().Add(-r.cfg.Retention)
	for removed := 0; ; {
		n, err := r.store.Prune(held, before, pruneBatch)
		removed += n
		if err != nil || n == 0 {
			if removed > 0 {
				r.log.InfoContext(ctx, "what is old was removed", slog.Int("rows", removed), slog.Time("before", before))
			}
			return err
		}
		pause := time.NewTimer(prunePause)
		select {
		case <-pause.C:
		case <-held.Done():
			pause.Stop()
			return held.Err()
		}
	}
}
