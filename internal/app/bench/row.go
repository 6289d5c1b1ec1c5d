package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// row is a measured call with its goals and its results.
type row struct {
	name   string
	before func() error                                                         // runs before each call and is not measured; may be nil
	call   func(client int) error                                               // the measured call; client counts from 0
	turns  func(d time.Duration) (took []time.Duration, clients int, err error) // if not nil, runs a turn with clients of its own instead of call
	after  func()                                                               // waits until the work that the calls of a turn have begun is done; may be nil
	peers  []peer
	tail   float64 // goal: the largest ratio of p99 to p50; 0: no goal
	p99    float64 // goal: the largest p99 in milliseconds; 0: no goal

	took  []time.Duration // duration of each call
	rates []float64       // calls per second in each turn, see turn
	used                  // resources used in all turns
}

// peer names a row to compare with. least is the goal for the ratio to that row; 0 means no goal.
type peer struct {
	row   string
	least float64
}

// turn runs one turn and adds its results. The rate of the turn is calls per second. If r.after is set, the time
// includes the wait for the work that the calls have begun, so that no work is left out.
func (r *row) turn(ctx context.Context, clients int, d time.Duration) {
	begun := time.Now()
	var took []time.Duration
	var err error
	if r.turns != nil {
		took, clients, err = r.turns(d)
	} else {
		took, err = r.calls(ctx, clients, d)
	}
	check(err)
	r.took = append(r.took, took...)
	if r.after == nil {
		r.rates = append(r.rates, float64(len(took)*clients)/sum(took).Seconds())
		return
	}
	r.after()
	r.rates = append(r.rates, float64(len(took))/time.Since(begun).Seconds())
}

// calls lets every client repeat the call until the time is over. Each client makes the call at least once.
func (r *row) calls(ctx context.Context, clients int, d time.Duration) ([]time.Duration, error) {
	took := make([][]time.Duration, clients)
	g, ctx := errgroup.WithContext(ctx)
	begun := time.Now()
	for c := range clients {
		g.Go(func() error {
			for len(took[c]) == 0 || time.Since(begun) < d && ctx.Err() == nil {
				if r.before != nil {
					if err := r.before(); err != nil {
						return err
					}
				}
				start := time.Now()
				if err := r.call(c); err != nil {
					return fmt.Errorf("%s: %w", r.name, err)
				}
				took[c] = append(took[c], time.Since(start))
			}
			return ctx.Err()
		})
	}
	err := g.Wait()
	return slices.Concat(took...), err
}

// ratio divides the row's rate by the peer's rate in each turn, and returns the median of the ratios.
func (r *row) ratio(peer *row) float64 {
	ratios := make([]float64, len(r.rates))
	for i, rate := range r.rates {
		ratios[i] = rate / peer.rates[i]
	}
	return median(ratios)
}

func sum(took []time.Duration) (total time.Duration) {
	for _, t := range took {
		total += t
	}
	return total
}

func median(values []float64) float64 {
	slices.Sort(values)
	return (values[len(values)/2] + values[(len(values)-1)/2]) / 2
}

// quantile returns the quantile q, from 0 to 1, of the durations in milliseconds. It sorts took.
func quantile(took []time.Duration, q float64) float64 {
	slices.Sort(took)
	return took[int(q*float64(len(took)-1))].Seconds() * 1e3
}
