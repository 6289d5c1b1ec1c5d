package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"

	"fleet/internal/store/postgres/pgtest"
)

// row is a measured call with its goals and its results.
type row struct {
	name   string
	before func() error                                                         // called before each call, not measured; may be nil
	call   func(client int) error                                               // called with the number of the client, from 0
	after  func() error                                                         // called after each turn: it waits for what the calls have begun; may be nil
	turns  func(d time.Duration) (took []time.Duration, clients int, err error) // in place of calls: other clients do a turn
	peers  []peer
	tail   float64 // goal: how many times p50 the p99 may be; 0: none
	p99    float64 // goal: milliseconds; 0: none

	took  []time.Duration // duration of each call
	rates []float64       // calls per second in each turn
	used                  // in all turns
}

// used is what this process has used, for clients and servers together. Rows with a database count its CPU time too.
type used struct {
	cpu     time.Duration
	objects uint64 // allocated on the heap
	bytes   uint64
}

func (r *report) usedSoFar() used {
	pid := 0
	if r.database != nil {
		pid = r.database.PID()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return used{must(cpuTime(pid)), m.Mallocs, m.TotalAlloc}
}

// peer is the name of a row to compare with, and the goal for the ratio to it; 0: none.
type peer struct {
	row   string
	least float64
}

// turn lets every client repeat the call until the time is over, at least once.
func (r *row) turn(ctx context.Context, clients int, d time.Duration) error {
	if r.turns != nil {
		took, clients, err := r.turns(d)
		r.add(took, clients)
		return err
	}
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
	r.add(slices.Concat(took...), clients)
	if err == nil && r.after != nil {
		err = r.after()
	}
	return err
}

// add adds the durations of the calls of a turn.
func (r *row) add(took []time.Duration, clients int) {
	r.took = append(r.took, took...)
	r.rates = append(r.rates, float64(len(took))/(sum(took).Seconds()/float64(clients)))
}

func sum(took []time.Duration) (total time.Duration) {
	for _, t := range took {
		total += t
	}
	return total
}

// ratio returns the median over all turns of the row's rate divided by the peer's.
func (r *row) ratio(peer *row) float64 {
	ratios := make([]float64, len(r.rates))
	for i, rate := range r.rates {
		ratios[i] = rate / peer.rates[i]
	}
	return median(ratios)
}

func median(values []float64) float64 {
	slices.Sort(values)
	return (values[len(values)/2] + values[(len(values)-1)/2]) / 2
}

// quantile returns the quantile of the durations, in milliseconds. It sorts them.
func quantile(took []time.Duration, q float64) float64 {
	slices.Sort(took)
	return took[int(q*float64(len(took)-1))].Seconds() * 1e3
}

// report measures rows, prints them, and collects the goals.
type report struct {
	options
	out      io.Writer
	goals    [][4]string
	database *pgtest.Server // of the rows that are measured; nil if they have none
}

// measure measures the selected rows in turns, prints them, and records their goals.
func (r *report) measure(ctx context.Context, title string, clients int, rows ...*row) {
	if rows = slices.DeleteFunc(rows, func(row *row) bool { return !r.only.MatchString(row.name) }); len(rows) == 0 {
		return
	}
	for _, row := range rows {
		warm := *row // opens connections, fills pools and caches
		check(warm.turn(ctx, clients, r.each/20))
	}
	for range r.rounds {
		for _, row := range rows {
			runtime.GC() // so that each row pays for its own garbage
			before := r.usedSoFar()
			check(row.turn(ctx, clients, r.each/time.Duration(r.rounds)))
			after := r.usedSoFar()
			row.cpu += after.cpu - before.cpu
			row.objects += after.objects - before.objects
			row.bytes += after.bytes - before.bytes
		}
	}
	fmt.Fprintf(r.out, "\n%s, clients: %d\n", title, clients)
	w := tabwriter.NewWriter(r.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\tcalls/s\tp50 ms\tp99 ms\tCPU us\tobjects\tbytes\tratio to\t\n")
	for _, row := range rows {
		p50, p99 := quantile(row.took, 0.5), quantile(row.took, 0.99)
		goal := func(what, relation string, bound, value float64) {
			if bound > 0 {
				r.goal(fmt.Sprintf("%s, %s, clients: %d", row.name, what, clients), relation, bound, value)
			}
		}
		fmt.Fprintf(w, "%s\t%.0f\t%.2f\t%.2f\t%.1f\t%d\t%d\t", row.name, median(slices.Clone(row.rates)), p50, p99,
			row.cpu.Seconds()*1e6/float64(len(row.took)), row.objects/uint64(len(row.took)), row.bytes/uint64(len(row.took)))
		for _, p := range row.peers {
			for _, other := range rows {
				if other.name == p.row {
					fmt.Fprintf(w, " %s %.2f ", p.row, row.ratio(other))
					goal("of "+p.row, "at least", p.least, row.ratio(other))
				}
			}
		}
		goal("p99 of p50", "at most", row.tail, p99/p50)
		goal("p99 ms", "at most", row.p99, p99)
		fmt.Fprintln(w, "\t")
	}
	check(w.Flush())
}

// goal records a goal: the value should be at least, or at most, the bound.
func (r *report) goal(name, relation string, bound, value float64) {
	met := "met"
	if relation == "at least" && value < bound || relation == "at most" && value > bound {
		met = "not met"
	}
	r.goals = append(r.goals, [4]string{name, fmt.Sprintf("%s %g", relation, bound), fmt.Sprintf("%.2f", value), met})
}

func (r *report) printGoals() {
	w := tabwriter.NewWriter(r.out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "\ngoal\twanted\tmeasured\t\n")
	for _, g := range r.goals {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", g[0], g[1], g[2], g[3])
	}
	_ = w.Flush() // there is nobody to report an error to
}
