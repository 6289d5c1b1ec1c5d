package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/store/postgres/pgtest"
)

// durable are settings with which Postgres loses nothing that it has acknowledged.
var durable = []string{"fsync=on", "full_page_writes=on", "synchronous_commit=on", "shared_buffers=512MB"}

// writers is the number of connections with which a replica writes.
const writers = 16

// replicated measures tasks on replicas that share a Postgres server, beside pgbench on the same server, and watchers of two replicas.
func (r *report) replicated(ctx context.Context) {
	counts := slices.DeleteFunc([]int{1, 2, 4}, func(n int) bool { return !r.only.MatchString(onReplicas(n)) })
	if r.startDatabase == nil || len(counts) == 0 {
		return
	}
	pg, err := r.startDatabase()
	if err != nil {
		fmt.Fprintf(r.out, "\nReplicas are left out: %v.\n", err)
		return
	}
	defer func() { check(pg.Stop()) }()
	r.database = pg
	defer func() { r.database = nil }()
	fmt.Fprintf(r.out, "\nReplicas that share a Postgres server with its data in %s, and %d agents. CPU time is also that of Postgres and of what follows from a call.\n",
		pg.Dir, r.agents)
	check(pg.Exec(ctx, "postgres", `CREATE DATABASE fleet`))
	t := must(newTestbedOn(ctx, pg.URL("fleet"), r.agents))
	defer func() { check(t.close()) }()
	direct := newPgbench(ctx, pg, r.agents)
	for _, n := range counts {
		r.onReplicas(ctx, t, direct, n)
	}
}

func onReplicas(n int) string { return fmt.Sprintf(", replicas: %d", n) }

// startDurable starts a Postgres server whose data is on a disk.
func startDurable() (*pgtest.Server, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(os.TempDir(), &fs); err != nil {
		return nil, err
	}
	if fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.RAMFS_MAGIC {
		return nil, fmt.Errorf("%s is in memory: set TMPDIR to a directory on a disk", os.TempDir())
	}
	return pgtest.Start("", durable...)
}

// onReplicas measures tasks on n replicas, beside pgbench with as many connections.
func (r *report) onReplicas(ctx context.Context, t *testbed, direct *pgbench, n int) {
	var replicas []*testbed
	defer func() {
		for _, replica := range replicas {
			check(replica.close())
		}
	}()
	for range n {
		replica := must(t.replica())
		replicas = append(replicas, replica)
		check(replica.serve(nil))
		must(replica.listed(ctx, r.agents))
	}
	var next atomic.Int64
	start := func(client int) (fleetv1.FleetServiceClient, string, error) {
		server, i := replicas[client%n].fleet, int(next.Add(1))%r.agents // each agent has completed before its next turn
		started, err := server.StartAgentTask(ctx, &fleetv1.StartAgentTaskRequest{AgentName: agentName(i), TaskDescription: "Say hello."})
		return server, started.GetTask().GetId(), err
	}
	idle := func() error { return t.idle(ctx) }
	longer := *r // pgbench begins anew in each turn
	longer.rounds = max(1, min(r.rounds, int(r.each/time.Second)))
	starts, tasks := fmt.Sprintf("pgbench start.sql, connections: %d", n*writers), fmt.Sprintf("pgbench task.sql, connections: %d", n*writers)
	longer.measure(ctx, "tasks", 2*r.clients,
		&row{name: "start_agent_task" + onReplicas(n), p99: 100, peers: []peer{{starts, 0.5}}, after: idle, call: func(client int) error {
			_, _, err := start(client)
			return err
		}},
		direct.row(ctx, starts, startScript, n*writers),
		&row{name: "task until its end" + onReplicas(n), peers: []peer{{tasks, 0.5}}, after: idle, call: func(client int) error {
			server, task, err := start(client)
			if err == nil {
				_, err = server.WaitTasks(ctx, &fleetv1.WaitTasksRequest{TaskIds: []string{task}})
			}
			return err
		}},
		direct.row(ctx, tasks, startScript+taskScript, n*writers))
	r.goals = longer.goals
	if n == 2 {
		_, p99 := r.watch(ctx, replicas...)
		r.goal(fmt.Sprintf("event to each of %d watchers, p99 ms from the call%s", r.watchers, onReplicas(n)), "at most", 100, p99)
	}
}

// replica returns another server on the testbed's store and place, which is not served yet.
func (t *testbed) replica() (*testbed, error) {
	if t.url == "" {
		return nil, errors.New("a testbed on SQLite has one server")
	}
	data, err := os.MkdirTemp("", "fleet-bench-")
	return &testbed{world: t.world, url: t.url, data: data, stop: func() error { return nil }, shares: true}, err
}

// idle waits until no agent has a task, and no server works for an agent.
func (t *testbed) idle(ctx context.Context) error {
	for {
		busy, err := t.store.Leases(ctx, "agent/")
		if err == nil && len(busy) == 0 {
			var running int
			err = t.store.View(ctx, func(tx fleet.ReadTx) (err error) {
				found, err := tx.FindTasks(fleet.TaskFilter{Status: fleet.TaskRunning}, fleet.TaskWindow{Limit: 1})
				running = len(found.Tasks)
				return err
			})
			if err == nil && running == 0 {
				return nil
			}
		}
		if err != nil {
			return err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
