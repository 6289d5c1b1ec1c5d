package reconcile

import (
	"context"
	"log/slog"
	"time"

	"fleet/internal/fleet"
)

// trainLeasePrefix is the prefix of the keys of leases on trains.
const trainLeasePrefix = "train/"

// observeInterval is how often Fleet looks for work that people have landed without Fleet.
const observeInterval = 2 * time.Minute

// minTrainInterval is the shortest time between two calls of Jobs.Trains.
const minTrainInterval = 200 * time.Millisecond

// runTrains runs the trains that have work, each in a separate goroutine, until ctx is done. It waits for these goroutines.
func (r *Reconciler) runTrains(ctx context.Context) {
	signal, cancel := r.store.Subscribe()
	defer cancel()
	running, ended := map[fleet.Train]bool{}, make(chan fleet.Train)
	defer func() {
		for range running {
			<-ended
		}
	}()
	for {
		trains, err := r.jobs.Trains(ctx)
		if err != nil && ctx.Err() == nil {
			r.log.WarnContext(ctx, "trains not read, retrying", slog.Any("error", err))
		}
		for _, t := range trains {
			if !running[t] {
				running[t] = true
				go func() {
					r.runTrain(ctx, t)
					ended <- t
				}()
			}
		}
		var retry <-chan time.Time
		if err != nil {
			retry = time.After(r.cfg.LeaseTTL)
		}
		select {
		case <-signal:
		case <-retry:
		case t := <-ended:
			delete(running, t)
		case <-ctx.Done():
			return
		}
		if sleep(ctx, minTrainInterval) != nil {
			return
		}
	}
}

// observeLandings calls Jobs.ObserveLandings regularly until ctx is done. Trains do not wait for it, because it asks repositories.
func (r *Reconciler) observeLandings(ctx context.Context) {
	for sleep(ctx, observeInterval) == nil {
		if err := r.jobs.ObserveLandings(ctx); err != nil && ctx.Err() == nil {
			r.log.WarnContext(ctx, "branches of projects not read, retrying", slog.Any("error", err))
		}
	}
}

// runTrain lands the work of the train that can land now, if no other server runs the train. It returns when the train may have work
// again, or at once if only a change of the store can give it work.
func (r *Reconciler) runTrain(ctx context.Context, t fleet.Train) {
	leaseCtx, release, ok, err := r.leases.hold(ctx, trainLeasePrefix+t.Key())
	next := time.Now().Add(r.cfg.LeaseTTL / 3) // another server has the lease, or the store does not answer
	if ok {
		if next, err = r.jobs.RunTrain(leaseCtx, t); err != nil {
			next = time.Now().Add(r.cfg.LeaseTTL)
		}
		release()
	}
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		r.log.ErrorContext(ctx, "work does not land, retrying", slog.String("project", t.Key()), slog.Any("error", err))
	}
	if !next.IsZero() {
		_ = sleep(ctx, time.Until(next))
	}
}
