package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"

	fleetv1 "fleet/gen/fleet/v1"
)

// printEvents measures how many events a second come through watch_fleet: of a task that writes while all clients watch
// it, and out of the log. Whole tasks and whole calls are counted.
func printEvents(ctx context.Context, out io.Writer, t *testbed, o options) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	header := "\nevents through watch_fleet\n\tclients\tevents/s\tof one\tCPU us\t\n"
	h := &caller{client: &http.Client{Transport: &http.Transport{}}, authorization: t.authorization}
	defer h.client.CloseIdleConnections()
	for _, s := range []struct {
		name  string
		watch func(ctx context.Context, clients int) (events int64, err error)
	}{
		{"output of a running task, gRPC", func(ctx context.Context, n int) (int64, error) { return t.watchTask(ctx, n, o.events) }},
		{"log, gRPC", byAll(func(ctx context.Context) (int64, error) { return t.readLog(ctx, o.events) })},
		{"log, REST, as server-sent events", byAll(func(ctx context.Context) (int64, error) { return h.readLog(ctx, t.server.HTTPAddr(), o.events) })},
	} {
		if !o.only.MatchString(s.name) {
			continue
		}
		fmt.Fprint(w, header)
		header = ""
		for _, n := range o.clients {
			var events int64
			cpu, begun := cpuTime(), time.Now()
			for time.Since(begun) < o.each {
				more, err := s.watch(ctx, n)
				if err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
				events += more
			}
			rate := float64(events) / time.Since(begun).Seconds()
			fmt.Fprintf(w, "%s\t%d\t%.0f\t%.0f\t%.1f\t\n", s.name, n, rate, rate/float64(n), float64((cpuTime()-cpu).Nanoseconds())/1e3/float64(events))
		}
	}
	return w.Flush()
}

// byAll lets all clients read at a time.
func byAll(read func(context.Context) (int64, error)) func(context.Context, int) (int64, error) {
	return func(ctx context.Context, clients int) (int64, error) {
		var events atomic.Int64
		g, ctx := errgroup.WithContext(ctx)
		for range clients {
			g.Go(func() error {
				n, err := read(ctx)
				events.Add(n)
				return err
			})
		}
		err := g.Wait()
		return events.Load(), err
	}
}

// watchTask starts a task that writes, and lets all clients watch it to its end.
func (t *testbed) watchTask(ctx context.Context, clients, lines int) (int64, error) {
	r, err := t.fleet.StartAgentTask(t.outgoing(ctx), &fleetv1.StartAgentTaskRequest{
		AgentName: t.idle[0], TaskDescription: fmt.Sprintf("repeat %d The quick brown fox jumps over the lazy dog.", lines),
	})
	if err != nil {
		return 0, err
	}
	return byAll(func(ctx context.Context) (int64, error) {
		return t.read(ctx, &fleetv1.WatchFleetRequest{TaskId: r.GetTask().GetId(), Follow: true})
	})(ctx, clients)
}

// readLog reads the oldest events.
func (t *testbed) readLog(ctx context.Context, events int) (int64, error) {
	most := int32(events)
	return t.read(ctx, &fleetv1.WatchFleetRequest{MaxEvents: &most})
}

func (t *testbed) read(ctx context.Context, r *fleetv1.WatchFleetRequest) (events int64, err error) {
	s, err := t.fleet.WatchFleet(t.outgoing(ctx), r)
	if err != nil {
		return 0, err
	}
	for {
		m, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return events, nil
		}
		if err != nil {
			return 0, err
		}
		events += int64(len(m.GetEvents()))
	}
}

// readLog reads the oldest events as a browser does, and counts them.
func (c *caller) readLog(ctx context.Context, addr string, events int) (int64, error) {
	var body bytes.Buffer
	err := c.do(ctx, http.MethodGet, fmt.Sprintf("http://%s/v1/events?max_events=%d", addr, events), "", "text/event-stream", &body)
	return int64(bytes.Count(body.Bytes(), []byte("\ndata: "))) - 1, err // the last tells of the end
}
