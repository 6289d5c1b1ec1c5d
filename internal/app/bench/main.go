// Program bench measures the three faces of a whole fleet on real sockets. Beside them it measures bare peers that
// return the same answers: grpc-go without interceptors, net/http with encoding/json, and a tool written by hand for
// mcp-go or for the TypeScript SDK. The rows of a table take turns, so that other load on the machine affects all of
// them. Trust the ratios, not the numbers.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime/pprof"
	"time"

	"google.golang.org/grpc/grpclog"

	"fleet/internal/app"
	"fleet/internal/store/postgres/pgtest"
)

// options configure what is measured.
type options struct {
	each     time.Duration // time for each row
	rounds   int           // number of turns into which the time of a row is divided
	only     *regexp.Regexp
	listed   int    // number of agents in the lists
	agents   int    // number of agents in the large fleet
	watchers int    // number of watchers of the large fleet
	events   int    // number of events for the watchers, one event after the other
	clients  int    // number of concurrent clients; every list is also measured with one client
	peers    string // directory of the TypeScript peer; empty: that peer is left out
	day      int    // number of events in a day, for the page
	// startDatabase starts the Postgres server for the replicas or for the large store. If it is nil, nothing is
	// measured on Postgres.
	startDatabase func() (*pgtest.Server, error)
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "shim" { // a server under test starts this program for its runs
		os.Exit(app.Main(os.Args[1:]))
	}
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard)) // calls return their errors
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	o := options{listed: 100, agents: 10000, watchers: 1000, events: 100, peers: ".build/npm/bench", day: 86_400, startDatabase: startDurable}
	flag.DurationVar(&o.each, "time", 4*time.Second, "how long each row is measured")
	flag.IntVar(&o.rounds, "rounds", 16, "how many turns a row takes in that time")
	flag.IntVar(&o.clients, "clients", 32, "how many clients call at the same time")
	only := flag.String("only", "", "measure only rows whose name matches this `regexp`")
	profile := flag.String("cpuprofile", "", "write a CPU profile to `file`")
	live := flag.Bool("page", false, "measure the live page in Chromium instead; see make bench-page")
	stored := flag.Int("stored", 0, "measure a store with so many `tasks`, and a tenth as many agents, instead; see make bench-large")
	keep := flag.String("keep", "", "fill that store in `directory`, or use the one that is there")
	flag.Parse()
	err := caught(func() {
		o.only = must(regexp.Compile(*only))
		if *profile != "" {
			file := must(os.Create(*profile))
			check(pprof.StartCPUProfile(file))
			defer func() { pprof.StopCPUProfile(); check(file.Close()) }()
		}
		switch r := (&report{options: o, out: os.Stdout}); {
		case *stored > 0:
			r.startDatabase = func() (*pgtest.Server, error) { return pgtest.Start("", "shared_buffers=512MB") }
			r.scale(ctx, *stored, *keep)
			r.printGoals()
		case *live:
			r.onPage(ctx)
		default:
			r.all(ctx)
		}
	})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// all measures everything but the page and the large store, and prints the results beside the goals.
func (r *report) all(ctx context.Context) {
	fmt.Fprintf(r.out, "Each row is measured for %s in %d turns. A ratio is the median over the turns of the row's calls/s to its peer's.\n", r.each, r.rounds)
	r.lists(ctx)
	r.large(ctx)
	r.replicated(ctx)
	r.printGoals()
}
