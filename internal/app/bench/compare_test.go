package bench

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/prometheus/procfs"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// measurement makes calls for the duration. It returns how long each call took, in milliseconds, and the calls per second.
type measurement func(b *testing.B, d time.Duration) (durations []float64, rate float64)

// row is a line of the results.
type row struct {
	name         string
	measure      measurement
	maxP99Millis float64 // goal; 0: no goal
	maxTailRatio float64 // goal for p99 divided by p50; 0: no goal
}

// peer is a row with which another row is compared.
type peer struct {
	row
	minRatio float64 // goal: the smallest ratio of the compared row's calls/s to the peer's; 0: no goal
}

// repeat returns a measurement in which each client repeats the call, at least once. Clients are numbered from 0. before runs
// before each call, and is not measured.
func repeat(clients int, call func(client int) error, before ...func() error) measurement {
	return func(b *testing.B, d time.Duration) ([]float64, float64) {
		durations := make([][]float64, clients)
		var g errgroup.Group
		end := time.Now().Add(d)
		for c := range clients {
			g.Go(func() error {
				for len(durations[c]) == 0 || time.Now().Before(end) {
					for _, f := range before {
						if err := f(); err != nil {
							return err
						}
					}
					start := time.Now()
					if err := call(c); err != nil {
						return err
					}
					durations[c] = append(durations[c], msSince(start))
				}
				return nil
			})
		}
		require.NoError(b, g.Wait())
		all := slices.Concat(durations...)
		return all, float64(clients) * 1000 / mean(all)
	}
}

// thenWait returns a measurement that makes the calls of m, and then calls wait, which waits for the work that they started. Its rate
// includes that time.
func (m measurement) thenWait(wait func(*testing.B)) measurement {
	return func(b *testing.B, d time.Duration) ([]float64, float64) {
		start := time.Now()
		durations, _ := m(b, d)
		wait(b)
		return durations, float64(len(durations)) * 1000 / msSince(start)
	}
}

// compare measures the row. An iteration measures the row and each peer, so that other load on the machine affects
// all of them. x-of-PEER is the median of the ratios of the row's calls/s to the peer's.
func compare(b *testing.B, d time.Duration, r row, peers ...peer) {
	b.Run(r.name, func(b *testing.B) {
		d = fullOrSmall(d, time.Millisecond)
		var durations, rates []float64
		ratios := make([][]float64, len(peers))
		for _, p := range append(peers, peer{row: r}) { // opens connections, and fills pools and caches
			p.measure(b, d/4)
		}
		cpu := time.Duration(0)
		for b.Loop() {
			runtime.GC()
			before := cpuTime(b)
			calls, rate := r.measure(b, d)
			cpu += cpuTime(b) - before
			durations, rates = append(durations, calls...), append(rates, rate)
			for i, p := range peers {
				runtime.GC()
				_, peerRate := p.measure(b, d)
				ratios[i] = append(ratios[i], rate/peerRate)
			}
		}
		p50, p99 := quantile(durations, 0.5), quantile(durations, 0.99)
		report(b, quantile(rates, 0.5), "calls/s", "", 0)
		report(b, p50, "p50-ms", "", 0)
		report(b, p99, "p99-ms", "at most", r.maxP99Millis)
		report(b, p99/p50, "p99/p50", "at most", r.maxTailRatio)
		report(b, cpu.Seconds()*1e6/float64(len(durations)), "cpu-us/call", "", 0)
		for i, p := range peers {
			report(b, quantile(ratios[i], 0.5), "x-of-"+p.name, "at least", p.minRatio)
		}
	})
}

// eachIteration repeats the iteration until the benchmark has run long enough, and returns the results.
func eachIteration[T any](b *testing.B, iteration func(i int) T) (results []T) {
	for i := 0; b.Loop(); i++ {
		results = append(results, iteration(i))
	}
	return results
}

// goals has a line for each metric with a bound. printGoals prints it.
var goals strings.Builder

// report reports a metric instead of ns/op. If bound is not 0, the metric should be "at least" or "at most" the bound.
func report(b *testing.B, value float64, unit, relation string, bound float64) {
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(value, unit)
	if bound == 0 {
		return
	}
	result := "met"
	if relation == "at least" && value < bound || relation == "at most" && value > bound {
		result = "not met"
	}
	fmt.Fprintf(&goals, "%s\t%s\t%s %g\t%.2f\t%s\n", strings.TrimPrefix(b.Name(), "Benchmark"), unit, relation, bound, value, result)
}

func printGoals() {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	if goals.Len() > 0 {
		fmt.Fprint(w, "\nbenchmark\tmetric\tgoal\tmeasured\t\n", goals.String())
	}
	_ = w.Flush()
}

// cpuTime returns the CPU time of this process and of its descendants, for example a Postgres server.
func cpuTime(b *testing.B) (total time.Duration) {
	const tick = time.Second / 100 // the same on every Linux
	processes, err := procfs.AllProcs()
	require.NoError(b, err)
	counted := map[int]bool{}
	for _, p := range processes { // by ascending id, so parents come before their children
		if s, err := p.Stat(); err == nil && (s.PID == os.Getpid() || counted[s.PPID]) {
			counted[s.PID] = true
			total += time.Duration(int(s.UTime+s.STime)+s.CUTime+s.CSTime) * tick //nolint:gosec // far below the limit
		}
	}
	return total
}

func msSince(start time.Time) (ms float64) { return time.Since(start).Seconds() * 1000 }

func mean(values []float64) (sum float64) {
	for _, v := range values {
		sum += v / float64(len(values))
	}
	return sum
}

// quantile returns the quantile q, from 0 to 1, of the values.
func quantile(values []float64, q float64) float64 {
	values = slices.Sorted(slices.Values(values))
	return values[int(q*float64(len(values)-1))]
}
