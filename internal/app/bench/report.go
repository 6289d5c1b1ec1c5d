package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"fleet/internal/store/postgres/pgtest"
)

// report measures rows, prints them, and collects the goals.
type report struct {
	options
	out      io.Writer
	goals    strings.Builder
	database *pgtest.Server // the Postgres server that the rows use; nil if they use none
}

// used has the resources that this process has used, for clients and servers together. If the rows use a Postgres
// server, its CPU time is included.
type used struct {
	cpu            time.Duration
	objects, bytes uint64 // allocated on the heap
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

// selects reports whether the flag -only selects at least one of the rows.
func (r *report) selects(rows ...string) bool { return slices.ContainsFunc(rows, r.only.MatchString) }

// measure measures the selected rows in turns, prints them, and records their goals.
func (r *report) measure(ctx context.Context, title string, clients int, rows ...*row) {
	if rows = slices.DeleteFunc(rows, func(row *row) bool { return !r.selects(row.name) }); len(rows) == 0 {
		return
	}
	for _, row := range rows {
		warm := *row // a turn that does not count opens connections, and fills pools and caches
		warm.turn(ctx, clients, r.each/20)
	}
	for range r.rounds {
		for _, row := range rows {
			runtime.GC() // so that each row pays for its own garbage
			before := r.usedSoFar()
			row.turn(ctx, clients, r.each/time.Duration(r.rounds))
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
		p50, p99, calls := quantile(row.took, 0.5), quantile(row.took, 0.99), uint64(len(row.took))
		goal := func(what, relation string, bound, value float64) {
			if bound > 0 {
				r.goal(fmt.Sprintf("%s, %s, clients: %d", row.name, what, clients), relation, bound, value)
			}
		}
		fmt.Fprintf(w, "%s\t%.0f\t%.2f\t%.2f\t%.1f\t%d\t%d\t", row.name, median(slices.Clone(row.rates)), p50, p99,
			row.cpu.Seconds()*1e6/float64(calls), row.objects/calls, row.bytes/calls)
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
	fmt.Fprintf(&r.goals, "%s\t%s %g\t%.2f\t%s\n", name, relation, bound, value, met)
}

func (r *report) printGoals() {
	w := tabwriter.NewWriter(r.out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "\ngoal\twanted\tmeasured\t\n", r.goals.String())
	check(w.Flush())
}
