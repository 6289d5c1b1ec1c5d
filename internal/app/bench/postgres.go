package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/store/postgres/pgtest"
)

// durable are settings with which Postgres loses nothing that it has acknowledged.
var durable = []string{"fsync=on", "full_page_writes=on", "synchronous_commit=on", "shared_buffers=512MB"}

// writers is the number of connections with which a replica writes.
const writers = 16

// replicated measures tasks on replicas that share a Postgres server, beside pgbench on the same Postgres server. It
// also measures watchers of two replicas.
func (r *report) replicated(ctx context.Context) {
	counts := slices.DeleteFunc([]int{1, 2, 4}, func(n int) bool { return !r.selects(onReplicas(n)) })
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
	fmt.Fprintf(r.out, "\nReplicas that share a Postgres server with its data in %s, and %d agents. CPU time is also that of Postgres and of what follows from a call.\n"+
		"Calls/s of replicas are counted until everything that they have begun has ended: all its rows are those of task.sql. Durations are of calls.\n", pg.Dir, r.agents)
	check(pg.Exec(ctx, "postgres", `CREATE DATABASE fleet`))
	t := newTestbed(ctx, pg.URL("fleet"), r.agents)
	defer t.close()
	check(pg.Exec(ctx, "fleet", `ANALYZE`)) // autovacuum would do it later
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

// onReplicas measures tasks on n replicas, beside pgbench with as many connections as the replicas have for writing.
func (r *report) onReplicas(ctx context.Context, t *testbed, direct *pgbench, n int) {
	var replicas []*testbed
	for range n {
		replica := t.beside()
		defer replica.close()
		check(replica.serve(nil))
		replica.listed(ctx, r.agents)
		replicas = append(replicas, replica)
	}
	var next atomic.Int64
	rows := r.starts(ctx, onReplicas(n), replicas...)
	rows = append(rows, &row{name: "task until its end" + onReplicas(n), call: func(client int) error {
		server := replicas[client%n]
		task, err := server.startTask(ctx, int(next.Add(1))%r.agents)
		if err == nil {
			_, err = server.fleet.WaitTasks(ctx, &fleetv1.WaitTasksRequest{TaskIds: []string{task}})
		}
		return err
	}})
	for _, row := range rows {
		row.after = func() { t.idle(ctx) }
	}
	starts, tasks := fmt.Sprintf("pgbench start.sql, connections: %d", n*writers), fmt.Sprintf("pgbench task.sql, connections: %d", n*writers)
	// A turn of start_agent_task lasts until the started tasks have ended. So it is compared with task.sql, which
	// writes the same rows as a whole task. start.sql writes only the rows of the start.
	rows[0].peers, rows[2].peers = []peer{{tasks, 0.5}, {starts, 0}}, []peer{{tasks, 0.5}}
	defer func(rounds int) { r.rounds = rounds }(r.rounds)
	r.rounds = max(1, min(r.rounds, int(r.each/time.Second))) // fewer turns, since pgbench is started anew in each turn
	r.measure(ctx, "tasks", 2*r.clients, append(rows, direct.row(ctx, starts, startScript, n*writers), direct.row(ctx, tasks, startScript+taskScript, n*writers))...)
	if n == 2 {
		_, p99 := r.watch(ctx, replicas...)
		r.goal(fmt.Sprintf("event to each of %d watchers, p99 ms from the call%s", r.watchers, onReplicas(n)), "at most", 100, p99)
	}
}
