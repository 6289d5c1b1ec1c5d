package bench

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"fleet/internal/fleet"
	"fleet/internal/store/postgres/pgtest"
)

// BenchmarkReplicas runs tasks on replicas that share a Postgres server. It compares them with pgbench on the same server, with the
// same number of connections. A measurement lasts until the work that its calls started has ended.
func BenchmarkReplicas(b *testing.B) {
	// d is longer than elsewhere, because each measurement starts pgbench again. Fleet's measurements must last about as long as
	// those of pgbench. If they were short, much of Fleet's work would run during checkpoints and vacuums that pgbench has caused.
	const d = 4 * time.Second
	const connections = 16 // of a replica, for writing
	var fs unix.Statfs_t
	require.NoError(b, unix.Statfs(os.TempDir(), &fs))
	if !*onlySmall && (fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.RAMFS_MAGIC) {
		b.Skipf("%s is in memory: set TMPDIR to a directory on a disk", os.TempDir())
	}
	// Postgres must lose nothing that it has acknowledged.
	pg := startPostgres(b, "fsync=on", "full_page_writes=on", "synchronous_commit=on", "shared_buffers=512MB")
	agents, clients := fullOrSmall(10_000, 200), fullOrSmall(64, 4)
	t := newFleet(b, newDatabase(b, pg, "fleet"), agents, fleet.LocalPrincipal)
	newFleet(b, newDatabase(b, pg, pgbenchDatabase), agents, fleet.LocalPrincipal)
	// The trigger adds up bytes in one row. In a fleet no transaction waits for that row, but the transactions of
	// pgbench would wait for each other.
	require.NoError(b, pg.Exec(b.Context(), pgbenchDatabase, `CREATE SEQUENCE numbers; DROP TRIGGER stored_project_events ON events; ANALYZE`))
	require.NoError(b, pg.Exec(b.Context(), "fleet", `ANALYZE`)) // autovacuum would do it later
	for _, n := range fullOrSmall([]int{1, 2, 4}, []int{2}) {
		b.Run(fmt.Sprintf("replicas=%d", n), func(b *testing.B) {
			l := &load{agents: agents}
			for range n {
				s := t.serve(b, nil)
				s.waitForAgents(b, agents)
				l.servers = append(l.servers, s)
			}
			starts := row{name: "pgbench-start.sql", measure: pgbench(pg, agents, n*connections, startScript)}
			tasks := row{name: "pgbench-task.sql", measure: pgbench(pg, agents, n*connections, startScript+taskScript)}
			// start_agent_task writes the same rows as task.sql. start.sql writes only those of the start.
			compare(b, d, row{name: "start_agent_task", maxP99Millis: 100, measure: repeat(clients, l.startTask(b)).thenWait(t.waitUntilIdle)}, peer{tasks, 0.5}, peer{starts, 0})
			compare(b, d, row{name: "agent_start", maxP99Millis: 100, measure: repeat(clients, l.startAgent(b)).thenWait(t.waitUntilIdle)})
			// With many clients, a call mostly waits for the calls of the others. With a few, the server is not overloaded.
			compare(b, d, row{name: "agent_start-by-8-clients", maxP99Millis: 100, measure: repeat(min(clients, 8), l.startAgent(b)).thenWait(t.waitUntilIdle)})
			compare(b, d, row{name: "task-until-its-end", measure: repeat(clients, l.runTask(b)).thenWait(t.waitUntilIdle)}, peer{tasks, 0.5})
			compare(b, d, row{name: "queue_task", maxP99Millis: 200, measure: repeat(clients, l.queueTask(b))}, peer{row{name: "pgbench-queue.sql", measure: pgbench(pg, agents, n*connections, queueScript)}, 0.5})
			compare(b, d, starts)
			compare(b, d, tasks)
			if n == 2 {
				b.Run("watchers", func(b *testing.B) { l.watch(b, 100) })
			}
		})
	}
}

// startPostgres starts a Postgres server for the benchmark. With -small, it does so only in `make test-postgres`.
func startPostgres(b *testing.B, settings ...string) *pgtest.Server {
	if *onlySmall {
		pgtest.SkipUnlessEnabled(b)
	}
	pg, err := pgtest.Start("", settings...)
	if err != nil {
		b.Skip(err)
	}
	b.Cleanup(func() { require.NoError(b, pg.Stop()) })
	return pg
}

// newDatabase creates a database and returns its URL.
func newDatabase(b *testing.B, pg *pgtest.Server, name string) string {
	require.NoError(b, pg.Exec(b.Context(), "postgres", `CREATE DATABASE `+name))
	return pg.URL(name)
}

// These scripts write the same rows as a fleet, with as few transactions as the same durability allows. They number
// events from a sequence. A fleet cannot do that: readers would miss an event that is committed after an event with a
// higher number.
var (
	//go:embed pgbench/start.sql
	startScript string
	//go:embed pgbench/task.sql
	taskScript string
	//go:embed pgbench/queue.sql
	queueScript string
)

// pgbenchDatabase is the database of pgbench. It has the content of a fleet, but no server uses it.
const pgbenchDatabase = "pgbench"

// pgbench returns a measurement that runs the script with pgbench on the given number of connections. Each runs it at least 50
// times, if there are enough agents. The first 5 runs do not count, since statements are prepared in them.
func pgbench(pg *pgtest.Server, agents, connections int, script string) measurement {
	rate := 0.0 // runs per second of all connections
	return func(b *testing.B, d time.Duration) (durations []float64, _ float64) {
		runs := min(max(50, int(rate*d.Seconds())/connections), max(6, agents/connections))          // an agent has one task at a time
		require.NoError(b, os.WriteFile(filepath.Join(pg.Dir, "script.sql"), []byte(script), 0o644)) //nolint:gosec // for the user of Postgres
		args := fmt.Sprintf("-h %s -U fleet -n -M prepared -l --log-prefix=pgbench -f script.sql -j 2 -D turn=0 -D connections=%d -D agents=%d -c %d -t %d %s",
			pg.Dir, connections, agents, connections, runs, pgbenchDatabase)
		out, err := pg.Command("pgbench", strings.Fields(args)...).CombinedOutput()
		require.NoError(b, err, "%s", out)
		logs, err := filepath.Glob(filepath.Join(pg.Dir, "pgbench.*"))
		require.NoError(b, err)
		for _, name := range logs {
			text, err := os.ReadFile(name) //nolint:gosec // a log of pgbench
			require.NoError(b, err)
			for line := range strings.Lines(string(text)) {
				var client, run int
				var micros float64
				_, err := fmt.Sscan(line, &client, &run, &micros)
				require.NoError(b, err)
				if run >= 5 {
					durations = append(durations, micros/1000)
				}
			}
			require.NoError(b, os.Remove(name))
		}
		require.NoError(b, pg.Exec(b.Context(), pgbenchDatabase, `UPDATE tasks SET status = 'completed' WHERE status IN ('running', 'pending')`)) // ends the tasks that the script has left
		rate = float64(connections) * 1000 / mean(durations)
		return durations, rate
	}
}
