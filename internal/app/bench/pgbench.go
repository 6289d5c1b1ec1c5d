package main

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"fleet/internal/store/postgres/pgtest"
)

// These scripts write the same rows as a fleet, with the fewest transactions that are as durable. They number events from a sequence, which
// is not good enough for a fleet: an event that is committed late would be missed.
var (
	//go:embed pgbench/start.sql
	startScript string
	//go:embed pgbench/task.sql
	taskScript string
)

// direct is the database of pgbench: a fleet that no server works for.
const direct = "direct"

// pgbench runs scripts with Postgres's own benchmark.
type pgbench struct {
	pg     *pgtest.Server
	agents int
}

func newPgbench(ctx context.Context, pg *pgtest.Server, agents int) *pgbench {
	check(pg.Exec(ctx, "postgres", `CREATE DATABASE `+direct))
	t := must(newTestbedOn(ctx, pg.URL(direct), agents))
	check(t.close())
	// The trigger adds up bytes in one row, for which fleet_stamp waits with nobody, and transactions of pgbench would for each other.
	check(pg.Exec(ctx, direct, `CREATE SEQUENCE numbers; DROP TRIGGER stored_project_events ON events; ANALYZE`))
	return &pgbench{pg: pg, agents: agents}
}

// Each connection runs a script often enough in a turn that its beginning, when statements are prepared, does not count.
const (
	leastRuns = 50
	firstRuns = 5 // are not measured
)

// row returns the row of a script, which that many connections run. Tasks that the script leaves running end after each turn.
func (b *pgbench) row(ctx context.Context, name, script string, connections int) *row {
	rate := 0.0 // of a connection
	return &row{name: name, turns: func(d time.Duration) ([]time.Duration, int, error) {
		n := min(max(leastRuns, int(rate*d.Seconds())), max(firstRuns+1, b.agents/connections)) // an agent has one task at a time
		took, err := b.run(ctx, script, connections, n)
		if err != nil {
			return nil, 0, err
		}
		rate = float64(n) / (sum(took).Seconds() / float64(connections))
		return took, connections, b.pg.Exec(ctx, direct, `UPDATE tasks SET status = 'completed' WHERE status = 'running'`)
	}}
}

// run lets each connection run the script n times, and returns how long each time took but the first ones.
func (b *pgbench) run(ctx context.Context, script string, connections, n int) (took []time.Duration, err error) {
	args := []string{"-h", b.pg.Dir, "-U", "fleet", "-n", "-M", "prepared", "-l", "--log-prefix=pgbench", "-f", "script.sql", "-j", "2"}
	for name, value := range map[string]int{"turn": 0, "connections": connections, "agents": b.agents} {
		args = append(args, "-D", fmt.Sprintf("%s=%d", name, value))
	}
	if err := os.WriteFile(filepath.Join(b.pg.Dir, "script.sql"), []byte(script), 0o644); err != nil { //nolint:gosec // for the user of Postgres
		return nil, err
	}
	cmd := b.pg.Command("pgbench", append(args, "-c", strconv.Itoa(connections), "-t", strconv.Itoa(n), direct)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("pgbench: %w: %s", err, out.Bytes())
	}
	logs, err := filepath.Glob(filepath.Join(b.pg.Dir, "pgbench.*"))
	for _, name := range logs {
		lines, err := os.ReadFile(name) //nolint:gosec // in a directory of ours
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(lines)) {
			var client, transaction, micros int64
			if _, err := fmt.Sscan(line, &client, &transaction, &micros); err != nil {
				return nil, fmt.Errorf("a line of pgbench's log: %q: %w", line, err)
			}
			if transaction >= firstRuns {
				took = append(took, time.Duration(micros)*time.Microsecond)
			}
		}
		if err := os.Remove(name); err != nil {
			return nil, err
		}
	}
	return took, err
}
