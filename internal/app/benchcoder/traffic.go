package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/app/e2e/faultproxy"
)

// counts are the requests that Coder has answered, by what they are for.
type counts struct {
	mu sync.Mutex
	by map[string]int
}

var idPattern = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// add counts a request. Those to agents go through Coder's app proxy, which has no rate limit.
func (c *counts) add(s faultproxy.Seen) {
	key := s.Method + " " + idPattern.ReplaceAllString(s.Path, "ID")
	if strings.HasPrefix(s.Path, "/@") {
		parts := strings.Split(s.Path, "/")
		key = s.Method + " agent's /" + parts[len(parts)-1]
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil {
		c.by = map[string]int{}
	}
	c.by[key]++
}

// take returns the counts and begins anew.
func (c *counts) take() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	by := c.by
	c.by = nil
	return by
}

// traffic counts the requests of a minute in which nothing happens, and of one in which agents work.
func traffic(ctx context.Context, f *fleet, o options, out io.Writer) (err error) {
	f.count.take()
	if err := wait(ctx, o.window); err != nil {
		return err
	}
	idle := f.count.take()

	group, making := errgroup.WithContext(ctx)
	for i := range o.busy {
		group.Go(func() error {
			_, err := f.api.CreateAgent(making, &fleetv1.CreateAgentRequest{Name: worker(i), Project: o.project, Spec: "x"})
			return err
		})
	}
	defer func() {
		for i := range o.busy {
			_, gone := f.api.DeleteAgent(context.WithoutCancel(ctx), &fleetv1.DeleteAgentRequest{AgentName: worker(i)})
			err = errors.Join(err, gone)
		}
	}()
	if err := group.Wait(); err != nil {
		return err
	}
	f.count.take()
	begun := time.Now()
	tasks, err := f.work(ctx, o)
	if err != nil {
		return err
	}
	busy, minutes := f.count.take(), [2]float64{o.window.Minutes(), time.Since(begun).Minutes()}

	fmt.Fprintf(out, "\nrequests to Coder a minute, with %d agents; busy: %d of them work, on %d tasks of %s\n", o.agents, o.busy, tasks, o.task)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\tidle\tbusy")
	both := maps.Clone(busy)
	maps.Copy(both, idle)
	limited := [2]int{}
	all := [2]int{}
	for _, key := range slices.Sorted(maps.Keys(both)) {
		fmt.Fprintf(w, "%s\t%.0f\t%.0f\n", key, float64(idle[key])/minutes[0], float64(busy[key])/minutes[1])
		for i, n := range []int{idle[key], busy[key]} {
			all[i] += n
			if !strings.Contains(key, "agent's ") {
				limited[i] += n
			}
		}
	}
	fmt.Fprintf(w, "all\t%.0f\t%.0f\n", float64(all[0])/minutes[0], float64(all[1])/minutes[1])
	fmt.Fprintf(w, "of these under Coder's rate limit (512)\t%.0f\t%.0f\n", float64(limited[0])/minutes[0], float64(limited[1])/minutes[1])
	return w.Flush()
}

func worker(i int) string { return fmt.Sprintf("Worker-%d", i) }

// work has the workers do one task after the other until the time is over, and returns how many.
func (f *fleet) work(ctx context.Context, o options) (int, error) {
	until := time.Now().Add(o.window)
	done := make([]int, o.busy)
	group, ctx := errgroup.WithContext(ctx)
	for i := range o.busy {
		group.Go(func() error {
			for ; time.Now().Before(until); done[i]++ {
				r, err := f.api.StartAgentTask(ctx, &fleetv1.StartAgentTaskRequest{AgentName: worker(i), TaskDescription: fmt.Sprintf("sleep %d # for task %d", int(o.task.Seconds()), done[i])})
				if err != nil {
					return err
				}
				for ended := false; !ended; {
					w, err := f.api.WaitTasks(ctx, &fleetv1.WaitTasksRequest{TaskIds: []string{r.GetTask().GetId()}})
					if err != nil {
						return err
					}
					ended = w.GetDone()
				}
			}
			return nil
		})
	}
	err := group.Wait()
	total := 0
	for _, n := range done {
		total += n
	}
	return total, err
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
