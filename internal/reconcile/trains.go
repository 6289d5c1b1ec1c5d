package reconcile

import (
	"context"
	"log/slog"
	"time"

	"fleet/internal/fleet"
)

// trainLease is the prefix of the leases of servers that run trains.
const trainLease = "train/"

// observeInterval is how often Fleet looks for work that people have landed themselves.
const observeInterval = 2 * time.Minute

// minTrainInterval is the shortest time between two looks for trains.
const minTrainInterval = 200 * time.Millisecond

// runTrains runs the trains that have work, each in a goroutine of its own.
func (r *Reconciler) runTrains(ctx context.Context) {
	signal, cancel := r.store.Subscribe()
	defer cancel()
	observe := time.NewTicker(observeInterval)
	defer observe.Stop()
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
		case <-observe.C:
			if err := r.jobs.ObserveLandings(ctx); err != nil && ctx.Err() == nil {
				r.log.WarnContext(ctx, "branches of projects not read, retrying", slog.Any("error", err))
			}
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

// runTrain runs the train until it has no work, or has to wait for something that is not in the store.
func (r *Reconciler) runTrain(ctx context.Context, t fleet.Train) {
	held, release, ok, err := r.leases.hold(ctx, trainLease+t.Key())
	again := time.Now().Add(r.cfg.LeaseTTL / 3) // another server has the lease, or the store does not answer
	if ok {
		if again, err = r.jobs.RunTrain(held, t); err != nil {
			again = time.Now().Add(r.cfg.LeaseTTL)
		}
		release()
	}
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		r.log.ErrorContext(ctx, "work does not land, retrying", slog.String("project", t.Key()), slog.Any("error", err))
	}
	if !again.IsZero() {
		_ = sleep(ctx, time.Until(again))
	}
}
