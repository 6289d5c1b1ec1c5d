// Package bench measures whole servers on real sockets: their faces compared with plain gRPC and HTTP servers, fleets with many
// agents, queues, replicas compared with pgbench, a large store, and the live page. Servers and clients share a process, so a figure
// includes the cost of the client. Trust the ratios, not the numbers.
package bench

import (
	"context"
	"flag"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/grpclog"

	"fleet/internal/app"
	"fleet/internal/store/postgres/pgtest"
	"fleet/internal/waittest"
)

var onlySmall = flag.Bool("small", false, "measure small fleets, to see quickly that the benchmarks work")

// fullOrSmall returns full, or small with -small.
func fullOrSmall[T any](full, small T) T {
	if *onlySmall {
		return small
	}
	return full
}

// TestMain lets the test binary also act as the program, which a server under test starts for its runs. It prints the
// goals after the benchmarks.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "shim" || os.Args[1] == "claude") {
		os.Exit(app.Main(os.Args[1:]))
	}
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard)) // calls return their errors
	code := m.Run()
	printGoals()
	os.Exit(code)
}

// TestBenchmarks runs all benchmarks once, with small sizes. BenchmarkPage is skipped on a machine without Chromium.
func TestBenchmarks(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 6*waittest.Limit) // the benchmarks run one after the other
	defer cancel()
	out, err := exec.CommandContext(ctx, os.Args[0], "-test.run=^$", "-test.bench=.", "-test.benchtime=1x", "-small").CombinedOutput() //nolint:gosec // this program
	require.NoError(t, err, "%s", out)
	require.NotContains(t, string(out), "NaN")
	benchmarks := []string{
		"List/clients=1/MCP", "List/clients=2/REST-304", "Fleet/watchers", "Fleet/agent_start", "Fairness/calls_per_cpu=16/beside-heavy", "Store/SQLite/search_fleet/agent", "Caches/second-agent", "Queue/list_queue", "Queue/with-budgets/show_queue", "Queue/end-to-next-start", "QueueShell/agents=4",
	}
	if pgtest.Enabled() {
		benchmarks = append(benchmarks, "Replicas/replicas=2/task-until-its-end", "Replicas/replicas=2/watchers", "Store/Postgres/show_usage")
	}
	for _, name := range benchmarks {
		require.Regexp(t, `(?m)^Benchmark`+name+`(-\d+)?\s+\d+\s`, string(out))
	}
	require.Regexp(t, `(?m)^List/clients=1/gRPC\s+x-of-grpc-go\s+at least 0.95\s+[0-9.]+\s+(not )?met$`, string(out))
}
