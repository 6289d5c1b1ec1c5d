package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"fleet/internal/store/postgres/pgtest"
)

// These scripts write the same rows as a fleet, with as few transactions as the same durability allows. They number
// events from a sequence. A fleet cannot do that: readers would miss an event that is committed after an event with a
// higher number.
var (
	//go:embed pgbench/start.sql
	startScript string
	//go:embed pgbench/task.sql
	taskScript string
)

// direct is the database of pgbench. It has the content of a fleet, but no server uses it.
const direct = "direct"

// pgbench runs the scripts with pgbench, the benchmark that comes with Postgres.
type pgbench struct {
	pg     *pgtest.Server
	agents int
}

func newPgbench(ctx context.Context, pg *pgtest.Server, agents int) *pgbench {
	check(pg.Exec(ctx, "postgres", `CREATE DATABASE `+direct))
	newTestbed(ctx, pg.URL(direct), agents).close()
	// The trigger adds up bytes in one row. In a fleet no transaction waits for that row, but the transactions of
	// pgbench would wait for each other.
	check(pg.Exec(ctx, direct, `CREATE SEQUENCE numbers; DROP TRIGGER stored_project_events ON events; ANALYZE`))
	return &pgbench{pg: pg, agents: agents}
}

// In each turn, a connection runs a script at least leastRuns times, if there are enough agents. The first firstRuns
// runs do not count, since the statements are prepared in them.
const (
	leastRuns = 50
	firstRuns = 5 // not measured
)

// row returns a row that runs the script on that many connections. After each turn, it ends the tasks that the script
// has left running.
func (b *pgbench) row(ctx context.Context, name, script string, connections int) *row {
	rate := 0.0 // runs per second of a connection
	return &row{name: name, turns: func(d time.Duration) ([]time.Duration, int, error) {
		n := min(max(leastRuns, int(rate*d.Seconds())), max(firstRuns+1, b.agents/connections)) // an agent has one task at a time
		took := b.run(script, connections, n)
		rate = float64(len(took)) / sum(took).Seconds()
		return took, connections, b.pg.Exec(ctx, direct, `UPDATE tasks SET status = 'completed' WHERE status = 'running'`)
	}}
}

// run lets each connection run the script n times. It returns the duration of each run, without the first firstRuns of
// a connection.
func (b *pgbench) run(script string, connections, n int) (took []time.Duration) {
	check(os.WriteFile(filepath.Join(b.pg.Dir, "script.sql"), []byte(script), 0o644)) //nolint:gosec // for the user of Postgres
	args := fmt.Sprintf("-h %s -U fleet -n -M prepared -l --log-prefix=pgbench -f script.sql -j 2 -D turn=0 -D connections=%d -D agents=%d -c %d -t %d %s",
		b.pg.Dir, connections, b.agents, connections, n, direct)
	if out, err := b.pg.Command("pgbench", strings.Fields(args)...).CombinedOutput(); err != nil {
		check(fmt.Errorf("pgbench: %w: %s", err, out))
	}
	for _, name := range must(filepath.Glob(filepath.Join(b.pg.Dir, "pgbench.*"))) {
		for line := range strings.Lines(string(must(os.ReadFile(name)))) { //nolint:gosec // in a directory of ours
			var client, transaction, micros int64
			must(fmt.Sscan(line, &client, &transaction, &micros))
			if transaction >= firstRuns {
				took = append(took, time.Duration(micros)*time.Microsecond)
			}
		}
		check(os.Remove(name))
	}
	return took
}
