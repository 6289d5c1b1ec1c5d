package chaos

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/store/postgres/pgtest"
)

// runLength is how long the test injects faults: until a number of faults has happened, or for a time. The other field is 0.
type runLength struct {
	faults   int
	duration time.Duration
}

// callersPerAgent is how many callers each agent has. While a server does not answer, some of them wait for it, and the others
// call other servers.
const callersPerAgent = 3

// manyFaults is a number of faults. In a run with at least as many, each kind of fault must have happened, and each check must
// have compared something.
const manyFaults = 500

// shortRun is the length of a run without CHAOS.
const shortRun = 20 * time.Second

// parseRunLength parses the value of CHAOS.
func parseRunLength(text string) (l runLength, err error) {
	if text == "" {
		return runLength{duration: shortRun}, nil
	}
	if l.faults, err = strconv.Atoi(text); err == nil && l.faults > 0 {
		return l, nil
	}
	if l.duration, err = time.ParseDuration(text); err != nil || l.duration <= 0 {
		return l, fmt.Errorf("CHAOS is %q: it must be a number of faults or a time, like 1000 or 10m", text)
	}
	return l, nil
}

// wait waits until the run has its length or ctx ends, and returns how long that took. Once a minute, it logs the number of faults.
func (l runLength) wait(ctx context.Context, t *testing.T, faults *faultLog) (lasted time.Duration) {
	t.Helper()
	began, reported := time.Now(), time.Now()
	for ctx.Err() == nil && (l.faults == 0 || faults.count() < l.faults) && (l.duration == 0 || time.Since(began) < l.duration) {
		pause(ctx, 200*time.Millisecond)
		if time.Since(reported) > time.Minute {
			reported = time.Now()
			t.Logf("%d faults in %s", faults.count(), time.Since(began).Round(time.Second))
		}
	}
	return time.Since(began)
}

func TestParseRunLength(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]runLength{"": {duration: shortRun}, "1000": {faults: 1000}, "10m": {duration: 10 * time.Minute}} {
		l, err := parseRunLength(text)
		require.NoError(t, err)
		require.Equal(t, want, l)
	}
	for _, text := range []string{"-1", "0", "soon", "-3s"} {
		_, err := parseRunLength(text)
		require.Error(t, err)
	}
}

// seedOf returns the seed of the test's random choices, from CHAOS_SEED, and logs it.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	seed, err := strconv.ParseUint(cmp.Or(os.Getenv("CHAOS_SEED"), "20261122"), 10, 64)
	require.NoError(t, err)
	t.Logf("CHAOS_SEED=%d", seed)
	return seed
}

// random returns a source of random choices that is the same for the same seed and stream.
func random(seed, stream uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, stream)) } //nolint:gosec // repeatable

// TestChaos lets faults happen to three servers on Postgres, to its primary and standby, and to one server on SQLite, while
// callers create and delete agents, start, stop and watch tasks, and send messages, on all faces.
func TestChaos(t *testing.T) {
	pgtest.SkipUnlessEnabled(t)
	length, err := parseRunLength(os.Getenv("CHAOS"))
	require.NoError(t, err)
	seed := seedOf(t)

	dir := t.TempDir()
	db := newDatabase(t, os.Getenv("CHAOS") != "")
	// The limits are so low that callers often reach them.
	onPostgres := newFleet(t, "Postgres", fleet.Limits{Agents: 18, RunningTasks: 6})
	for i := range 3 {
		onPostgres.addServerOn(t, db, fmt.Sprintf("r%d", i+1), filepath.Join(dir, fmt.Sprintf("r%d", i+1)))
	}
	disk, mounted := smallDisk(t, dir)
	onSQLite := newFleet(t, "SQLite", fleet.Limits{Agents: 10, RunningTasks: 3})
	single := onSQLite.addServer(t, "sqlite", filepath.Join(disk, "data"))
	fleets := []*fleetUnderLoad{onPostgres, onSQLite}
	for _, f := range fleets {
		f.start(t)
		if f == onPostgres {
			db.watchLeases(t)
		}
		f.createAgents(t)
	}

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var callers, watchers sync.WaitGroup
	watching, stopWatching := context.WithCancel(t.Context())
	defer stopWatching()
	streams := uint64(100)
	nextRandom := func() *rand.Rand {
		streams++
		return random(seed, streams)
	}
	for _, f := range fleets {
		f.startWatchers(watching, &watchers, nextRandom)
		f.startCallers(ctx, &callers, nextRandom)
	}

	faults := &faultLog{kinds: map[string]*faultStats{}}
	faults.expect("disk full", "restart of pg", "failover", "pg disk full", "pg log full")
	var injectors sync.WaitGroup
	var mu sync.Mutex
	var injectErrors []error
	inject := func(f func() error) {
		injectors.Go(func() {
			if err := f(); err != nil {
				mu.Lock()
				injectErrors = append(injectErrors, err)
				mu.Unlock()
				stop()
			}
		})
	}
	for i, s := range onPostgres.servers {
		inject(func() error { return faults.inject(ctx, s, serverFaults(s), random(seed, uint64(i))) })
	}
	singleFaults := serverFaults(single)
	if mounted {
		singleFaults["disk full"] = diskFault(disk)
	}
	inject(func() error { return faults.inject(ctx, single, singleFaults, random(seed, 10)) })
	inject(func() error { return faults.injectIntoDatabase(ctx, db, onPostgres.servers, random(seed, 11)) })

	lasted := length.wait(ctx, t, faults)
	stop()
	injectors.Wait()
	callers.Wait()
	require.Empty(t, injectErrors)

	r := &report{faults: faults}
	for _, f := range fleets {
		f.settle(t)
		e := f.collectEvidence(t)
		if f == onPostgres {
			e.leaseProblems, e.leaseOwners = db.leaseProblems(t)
		}
		result := f.history.check(e)
		r.add(f, result)
		for _, p := range result.problems[:min(len(result.problems), 40)] {
			t.Errorf("%s: %s", f.name, p)
		}
	}
	if faults.count() >= manyFaults {
		requireCompleteness(t, r, fleets)
	}
	stopWatching()
	watchers.Wait()
	t.Logf("%d faults in %s, CHAOS_SEED=%d\n%s", faults.count(), lasted.Round(time.Second), seed, r)
}

// requireCompleteness fails the test if a kind of fault did not happen, or a check compared nothing.
func requireCompleteness(t *testing.T, r *report, fleets []*fleetUnderLoad) {
	t.Helper()
	require.Empty(t, r.faults.missing(), "these faults did not happen; for a full disk, the test must be allowed to mount file systems")
	for i, result := range r.results {
		for _, c := range result.checks {
			require.True(t, c.rare || c.count > 0, "%s: nothing was compared: %s", fleets[i].name, c.what)
		}
	}
}

// startWatchers starts the watchers of the fleet. They run until ctx ends.
func (f *fleetUnderLoad) startWatchers(ctx context.Context, running *sync.WaitGroup, nextRandom func() *rand.Rand) {
	f.watchers = newWatchers(f)
	for _, w := range f.watchers {
		r := nextRandom()
		running.Go(func() { w.run(ctx, r) })
	}
}

// startCallers starts the callers of each agent, and callers that create agents and contracts. They run until ctx ends.
func (f *fleetUnderLoad) startCallers(ctx context.Context, running *sync.WaitGroup, nextRandom func() *rand.Rand) {
	client := 0
	start := func(caller func(context.Context, int, *rand.Rand)) {
		client++
		r, id := nextRandom(), client
		running.Go(func() { caller(ctx, id, r) })
	}
	for _, agent := range f.agents {
		for range callersPerAgent {
			start(func(ctx context.Context, id int, r *rand.Rand) { f.callAgent(ctx, id, agent, r) })
		}
	}
	for _, caller := range []func(context.Context, int, *rand.Rand){f.churnAgents, f.churnAgents, f.churnAgents, f.callContracts} {
		start(caller)
	}
}

// smallDisk mounts a small file system that a test can fill, and returns its directory and true. If the file system
// cannot be mounted, smallDisk returns an ordinary directory and false.
func smallDisk(t *testing.T, dir string) (path string, mounted bool) {
	path = filepath.Join(dir, "disk")
	require.NoError(t, os.Mkdir(path, 0o700))
	if err := syscall.Mount("fleet-chaos", path, "tmpfs", 0, "size=256m,mode=0700"); err != nil {
		t.Logf("the disk is not filled, since no file system can be mounted here: %v", err)
		return path, false
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(path, syscall.MNT_DETACH)) })
	return path, true
}
