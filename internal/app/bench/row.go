package main

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"
)

// row is something that is called, with what was measured of it.
type row struct {
	name string
	call func(client int) error // by client number client, from 0
	peer *row                   // that it is compared with; nil: none

	took   []time.Duration // by each call
	rates  []float64       // calls a second in each turn
	spent  time.Duration
	cpu    time.Duration
	bytes  uint64
	allocs uint64
}

func matching(rows []*row, only *regexp.Regexp) []*row {
	return slices.DeleteFunc(rows, func(r *row) bool { return !only.MatchString(r.name) })
}

// measure calls the rows by so many clients at a time: each row for a turn, and again, until each was called that long.
func measure(ctx context.Context, rows []*row, clients int, each time.Duration, rounds int) error {
	for _, r := range rows {
		if err := (&row{call: r.call}).turn(ctx, clients, each/20); err != nil { // connections are made, pools filled
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	for range rounds {
		for _, r := range rows {
			if err := r.turn(ctx, clients, each/time.Duration(rounds)); err != nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
		}
	}
	return nil
}

// turn calls the row by all clients until the time is over, each at least once.
func (r *row) turn(ctx context.Context, clients int, d time.Duration) error {
	runtime.GC() // garbage is paid for by who made it
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, begun := cpuTime(), time.Now()
	took := make([][]time.Duration, clients)
	g, ctx := errgroup.WithContext(ctx)
	for c := range clients {
		g.Go(func() error {
			for last := begun; last.Sub(begun) < d; {
				if err := r.call(c); err != nil {
					return err
				}
				now := time.Now()
				took[c] = append(took[c], now.Sub(last))
				last = now
			}
			return ctx.Err()
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	spent := time.Since(begun)
	runtime.ReadMemStats(&after)
	all := slices.Concat(took...)
	r.took = append(r.took, all...)
	r.rates = append(r.rates, float64(len(all))/spent.Seconds())
	r.spent += spent
	r.cpu += cpuTime() - cpu
	r.bytes += after.TotalAlloc - before.TotalAlloc
	r.allocs += after.Mallocs - before.Mallocs
	return nil
}

// ratio is the row's rate to its peer's, turn by turn, in the middle.
func (r *row) ratio() string {
	if r.peer == nil || len(r.peer.rates) != len(r.rates) {
		return ""
	}
	var ratios []float64
	for i, rate := range r.rates {
		ratios = append(ratios, rate/r.peer.rates[i])
	}
	slices.Sort(ratios)
	return fmt.Sprintf("%.2f", (ratios[len(ratios)/2]+ratios[(len(ratios)-1)/2])/2)
}

// quantile returns how long the call took that so many of all were quicker than.
func (r *row) quantile(q float64) time.Duration {
	return r.took[int(q*float64(len(r.took)-1))]
}

// printCalls prints the rows. unit is what one call does.
func printCalls(out io.Writer, title, unit string, rows []*row) {
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(out, "\n%s\n", title)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "%s\t%ss/s\tratio\tp50 ms\tp99 ms\tCPU us\tKB\tallocs\t\n", "", unit)
	for _, r := range rows {
		slices.Sort(r.took)
		n := len(r.took)
		fmt.Fprintf(w, "%s\t%.0f\t%s\t%.2f\t%.2f\t%.0f\t%.1f\t%d\t\n", r.name, float64(n)/r.spent.Seconds(), r.ratio(),
			ms(r.quantile(0.5)), ms(r.quantile(0.99)), float64(r.cpu.Nanoseconds())/1e3/float64(n), float64(r.bytes)/1024/float64(n), r.allocs/uint64(n))
	}
	_ = w.Flush() // as little as an error of out is told
}

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }
