// Program bench measures a whole fleet, its three faces on real sockets, beside bare peers that answer the same: grpc-go
// without interceptors, net/http with encoding/json, and a tool written by hand for mcp-go. All of them run in this one
// process and take turns, so that what else the machine does hits them alike. Trust the ratios, not the numbers.
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
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/grpclog"
)

// options say what is measured.
type options struct {
	agents  int
	clients []int
	each    time.Duration // that a row is measured
	rounds  int           // that each is divided into
	only    *regexp.Regexp
	auth    string
	events  int // that a watched task makes, and that are read out of the log in one call
}

func main() {
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard)) // calls tell of their errors
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := command(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string, out io.Writer) error {
	var o options
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.IntVar(&o.agents, "agents", 100, "how many agents the fleet has; at least twice the clients")
	f.DurationVar(&o.each, "time", 2*time.Second, "how long each row is measured")
	f.IntVar(&o.rounds, "rounds", 8, "how many turns a row takes in that time")
	f.StringVar(&o.auth, "auth", "none", "none, or tokens: the fleet's callers show one")
	f.IntVar(&o.events, "events", 10000, "how many events a watched task makes, and a call reads out of the log; at most 10000")
	clients := f.String("clients", "1,32", "how many callers there are at a time, one table each")
	only := f.String("only", "", "measure only rows whose name matches this `regexp`")
	profile := f.String("cpuprofile", "", "write a CPU profile to `file`")
	if err := f.Parse(args); err != nil {
		return err
	}
	for s := range strings.SplitSeq(*clients, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > o.agents/2 {
			return fmt.Errorf("-clients has %q: give numbers from 1 to half the agents, with commas between", s)
		}
		o.clients = append(o.clients, n)
	}
	if o.rounds < 1 || o.each <= 0 || o.events < 1 || o.events > 10000 {
		return fmt.Errorf("-rounds, -time and -events must be more than 0, and -events at most 10000")
	}
	var err error
	if o.only, err = regexp.Compile(*only); err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	if *profile == "" {
		return run(ctx, o, out)
	}
	file, err := os.Create(*profile)
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return err
	}
	err = run(ctx, o, out)
	pprof.StopCPUProfile()
	if closing := file.Close(); err == nil {
		err = closing
	}
	return err
}

// run measures and prints one table for each number of clients.
func run(ctx context.Context, o options, out io.Writer) (err error) {
	t, err := newTestbed(ctx, o)
	if err != nil {
		return err
	}
	defer func() {
		if closing := t.close(); err == nil {
			err = closing
		}
	}()
	p, err := newPeers(t.payload)
	if err != nil {
		return err
	}
	defer p.close()

	fmt.Fprintf(out, "list_agents: %d agents, %d bytes of JSON, over loopback TCP, -auth %s.\n", o.agents, len(p.json), o.auth)
	fmt.Fprintf(out, "%s a row in %d turns. The ratio is the median over the turns of this row's calls/s to its bare peer's;\n", o.each, o.rounds)
	fmt.Fprintln(out, "CPU, memory and allocations are a call's, on both sides of the connection.")
	for _, n := range o.clients {
		rows, end, err := listRows(ctx, t, p, n)
		if err != nil {
			return err
		}
		rows = matching(rows, o.only)
		err = measure(ctx, rows, n, o.each, o.rounds)
		end()
		if err != nil {
			return err
		}
		printCalls(out, fmt.Sprintf("list_agents, %s", callers(n)), "call", rows)
	}
	for _, n := range o.clients {
		rows := matching(taskRows(ctx, t), o.only)
		if err := measure(ctx, rows, n, o.each, 1); err != nil {
			return err
		}
		printCalls(out, fmt.Sprintf("start_agent_task until wait_tasks says completed, %s, an agent each", callers(n)), "task", rows)
	}
	if err := printEvents(ctx, out, t, o); err != nil {
		return err
	}
	return printContracts(ctx, out, o)
}

func callers(n int) string {
	if n == 1 {
		return "1 client"
	}
	return fmt.Sprintf("%d clients", n)
}
