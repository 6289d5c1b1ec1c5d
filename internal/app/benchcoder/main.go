// Program benchcoder measures list_agents of a fleet with hundreds of agents in a real Coder beside what Coder itself
// takes to list their workspaces, through its API and through its MCP server, in turns. Then it counts how many requests
// the fleet makes while nothing happens, and while agents work. `make coder-up bench-coder` runs it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"google.golang.org/grpc/grpclog"
)

// options say what is measured.
type options struct {
	agents  int           // cheap workspaces
	rounds  int           // of calls, one of each row in a round
	window  time.Duration // for which requests are counted
	busy    int           // agents that work meanwhile
	keep    bool          // the workspaces, for the next time
	project string        // of those
	task    time.Duration // how long each task of theirs takes
	bulk    string        // the script that makes cheap workspaces
}

func main() {
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard)) // calls tell of their errors
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	var o options
	flag.IntVar(&o.agents, "agents", 300, "how many cheap workspaces there are")
	flag.IntVar(&o.rounds, "rounds", 200, "how often each list is asked for")
	flag.DurationVar(&o.window, "window", time.Minute, "for how long requests to Coder are counted")
	flag.IntVar(&o.busy, "busy", 4, "how many real agents work while requests are counted")
	flag.StringVar(&o.project, "project", "Runner", "project of the real agents: Runner has fleet-runner, Setup has AgentAPI")
	flag.DurationVar(&o.task, "task", 5*time.Second, "how long a task of theirs takes, in whole seconds")
	flag.BoolVar(&o.keep, "keep", false, "keep the cheap workspaces for the next time")
	flag.StringVar(&o.bulk, "bulk", "testdata/coder-testbed/bulk.sh", "the `script` of the test bed that makes cheap workspaces")
	flag.Parse()
	err := run(ctx, o, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchcoder:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, out io.Writer) (err error) {
	c, err := newCoder(ctx, os.Getenv("CODER_URL"), os.Getenv("CODER_SESSION_TOKEN"))
	if err != nil {
		return err
	}
	there, err := c.count(ctx)
	if err != nil {
		return err
	}
	if missing := o.agents - there; missing > 0 {
		fmt.Fprintf(out, "Making %d cheap workspaces ...\n", missing)
		if err := script(ctx, o.bulk, strconv.Itoa(missing), c.user); err != nil {
			return err
		}
	}
	if !o.keep {
		defer func() { err = errors.Join(err, script(context.WithoutCancel(ctx), o.bulk, "--rm")) }()
	}
	f, err := newFleet(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	took, err := f.adopt(ctx, max(there, o.agents))
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d agents, known from Coder alone %s after the start of an empty fleet.\n", max(there, o.agents), took.Round(time.Second))
	if err := lists(ctx, c, f, o, out); err != nil {
		return err
	}
	return traffic(ctx, f, o, out)
}

func script(ctx context.Context, path string, args ...string) error {
	text, err := exec.CommandContext(ctx, path, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", path, err, text)
	}
	return nil
}

// row is a list that is asked for.
type row struct {
	name string
	call func(context.Context) (bytes int, err error)
	took []time.Duration
	size int
}

// lists asks for each list in turns, so that what else the machine does hits all alike.
func lists(ctx context.Context, c *coder, f *fleet, o options, out io.Writer) error {
	rows := []*row{
		{name: "Coder, GET /workspaces", call: c.list},
		{name: "Coder, MCP coder_list_workspaces", call: c.tool},
		{name: "Fleet, gRPC", call: f.overGRPC},
		{name: "Fleet, REST", call: f.overREST},
		{name: "Fleet, MCP", call: f.overMCP},
	}
	for round := range o.rounds + 3 {
		for _, r := range rows {
			begun := time.Now()
			n, err := r.call(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
			if round >= 3 { // connections are made, caches filled
				r.took, r.size = append(r.took, time.Since(begun)), n
			}
		}
	}
	fmt.Fprintf(out, "\nlist_agents, %d times each, one after the other\n", o.rounds)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tp50 ms\tp99 ms\tKB\tto Coder's API\tto Coder's MCP\t")
	for _, r := range rows {
		slices.Sort(r.took)
	}
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%.2f\t%.2f\t%.0f\t%.3f\t%.3f\t\n", r.name, ms(r.at(0.5)), ms(r.at(0.99)), float64(r.size)/1024,
			ms(r.at(0.5))/ms(rows[0].at(0.5)), ms(r.at(0.5))/ms(rows[1].at(0.5)))
	}
	return w.Flush()
}

func (r *row) at(q float64) time.Duration { return r.took[int(q*float64(len(r.took)-1))] }

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }
