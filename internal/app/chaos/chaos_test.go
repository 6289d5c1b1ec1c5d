package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/place/fake"
	"fleet/internal/store/postgres/pgtest"
)

// extent is how long the test injects faults: a number of faults, or a time.
type extent struct {
	faults int
	time   time.Duration
}

// shortly is the extent in an ordinary test run.
const shortly = 20 * time.Second

func extentOf(text string) (e extent, err error) {
	if text == "" {
		return extent{time: shortly}, nil
	}
	if e.faults, err = strconv.Atoi(text); err == nil && e.faults > 0 {
		return e, nil
	}
	if e.time, err = time.ParseDuration(text); err != nil || e.time <= 0 {
		return e, fmt.Errorf("CHAOS is %q: it must be a number of faults or a time, like 1000 or 10m", text)
	}
	return e, nil
}

func TestExtent(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]extent{"": {time: shortly}, "1000": {faults: 1000}, "10m": {time: 10 * time.Minute}} {
		e, err := extentOf(text)
		require.NoError(t, err)
		require.Equal(t, want, e)
	}
	for _, text := range []string{"-1", "0", "soon", "-3s"} {
		_, err := extentOf(text)
		require.Error(t, err)
	}
}

// TestChaos lets faults happen to three servers on Postgres, to its primary and standby, and to one server on SQLite, while
// callers create and delete agents, start, stop and watch tasks, and send messages, on all faces.
func TestChaos(t *testing.T) {
	if !pgtest.Needed() {
		t.Skip("it takes long: `make chaos-store` and `make test-postgres` run it")
	}
	length, err := extentOf(os.Getenv("CHAOS"))
	require.NoError(t, err)
	seed := uint64(20261122)
	if text := os.Getenv("CHAOS_SEED"); text != "" {
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("CHAOS_SEED=%d", seed)
	random := func(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, stream)) }

	dir := t.TempDir()
	witness := filepath.Join(dir, "witness")
	require.NoError(t, os.Mkdir(witness, 0o700))

	db := newDatabase(t)
	socket := filepath.Join(dir, "shared.sock")
	world := serveShared(t, socket)
	shared := &fleetUnder{name: "Postgres", witness: witness, shared: map[string]bool{}, history: newHistory()}
	for i := range 3 {
		s := newServer(t, fmt.Sprintf("r%d", i+1), filepath.Join(dir, fmt.Sprintf("r%d", i+1)))
		for address := range s.links {
			s.links[address] = pgtest.NewLink(t, func() string { return db.socket(address) })
		}
		s.store, s.shared = urlThrough(s.links), socket
		shared.servers = append(shared.servers, s)
	}
	disk, full := smallDisk(t, dir)
	single := newServer(t, "sqlite", filepath.Join(disk, "data"))
	alone := &fleetUnder{name: "SQLite", witness: witness, servers: []*server{single}, shared: map[string]bool{}, history: newHistory()}
	fleets := []*fleetUnder{shared, alone}
	for _, f := range fleets {
		for _, s := range f.servers {
			require.NoError(t, s.Start(0))
			_, err := s.awaitServing(patience)
			require.NoError(t, err, tail(s.log.Name(), 4<<10))
		}
		f.createAgents(t)
	}

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var callers, watchers sync.WaitGroup
	watching, stopWatching := context.WithCancel(t.Context())
	defer stopWatching()
	streams := uint64(100)
	for _, f := range fleets {
		f.log = newWatchers(f)
		for _, w := range f.log {
			streams++
			r := random(streams)
			watchers.Go(func() { w.run(watching, r) })
		}
		client := 0
		for _, agent := range f.agents {
			for range 2 {
				streams++
				client++
				r, id := random(streams), client
				callers.Go(func() { f.load(ctx, id, agent, r) })
			}
		}
		for range 3 {
			streams++
			client++
			r, id := random(streams), client
			callers.Go(func() { f.churn(ctx, id, r) })
		}
	}

	faults := &faultLog{kinds: map[string]*faultStats{}}
	var troubles sync.WaitGroup
	var mu sync.Mutex
	var failed []error
	trouble := func(f func() error) {
		troubles.Go(func() {
			if err := f(); err != nil {
				mu.Lock()
				failed = append(failed, err)
				mu.Unlock()
				stop()
			}
		})
	}
	for i, s := range shared.servers {
		trouble(func() error { return faults.afflict(ctx, s, serverFaults(s), random(uint64(i))) })
	}
	ofSingle := serverFaults(single)
	if full {
		ofSingle["disk full"] = diskFault(disk)
	}
	trouble(func() error { return faults.afflict(ctx, single, ofSingle, random(10)) })
	trouble(func() error { return faults.afflictDatabase(ctx, db, shared.servers, random(11)) })

	began := time.Now()
	for ctx.Err() == nil && (length.faults == 0 || faults.count() < length.faults) && (length.time == 0 || time.Since(began) < length.time) {
		pause(ctx, 200*time.Millisecond)
	}
	lasted := time.Since(began)
	stop()
	troubles.Wait()
	callers.Wait()
	require.Empty(t, failed)

	var report strings.Builder
	fmt.Fprintf(&report, "%d faults in %s, seed %d\n%s", faults.count(), lasted.Round(time.Second), seed, faults)
	for _, f := range fleets {
		f.settle(t)
		problems := f.check(t, world)
		fmt.Fprintf(&report, "\n%s: %d operations checked\n", f.name, len(f.history.ops))
		for _, what := range slices.Sorted(keys(f.history.calls)) {
			fmt.Fprintf(&report, "  %7d %s\n", f.history.calls[what], what)
		}
		for _, w := range f.log {
			fmt.Fprintf(&report, "  %s watcher: %d events, resumed %d times after a failure\n", w.name, len(w.events), w.breaks)
		}
		for i, p := range problems {
			if i < 40 {
				t.Errorf("%s: %s", f.name, p)
			}
		}
	}
	stopWatching()
	watchers.Wait()
	t.Logf("\n%s", report.String())
}

func keys[V any](m map[string]V) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// smallDisk mounts a small file system that a test can fill, and returns its directory. If it cannot be mounted, full is false and
// the directory is an ordinary one.
func smallDisk(t *testing.T, dir string) (path string, full bool) {
	path = filepath.Join(dir, "disk")
	require.NoError(t, os.Mkdir(path, 0o700))
	if err := syscall.Mount("fleet-chaos", path, "tmpfs", 0, "size=256m,mode=0700"); err != nil {
		t.Logf("the disk is not filled, since no file system can be mounted here: %v", err)
		return path, false
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(path, syscall.MNT_DETACH)) })
	return path, true
}

// createAgents creates two agents on the machine of each server, and four in the place that all servers share.
func (f *fleetUnder) createAgents(t *testing.T) {
	create := func(s *server, name, project string) {
		answer := &fleetv1.CreateAgentResponse{}
		require.NoError(t, overGRPC(t.Context(), s, "CreateAgent", &fleetv1.CreateAgentRequest{Name: name, Project: project, Spec: "x", RequestId: name}, answer))
		require.Equal(t, fleetv1.Agent_idle, answer.GetAgent().GetStatus(), answer)
		f.agents = append(f.agents, name)
	}
	for i, s := range f.servers {
		for j := range 2 {
			create(s, fmt.Sprintf("own-%s-%d-%d", strings.ToLower(f.name), i, j), "shell")
		}
	}
	if f.servers[0].shared == "" {
		return
	}
	for i := range 4 {
		name := fmt.Sprintf("shared-%d", i)
		create(f.servers[i%len(f.servers)], name, fake.DefaultProjects()[0].Name)
		f.shared[name] = true
	}
}

// settle waits until no task runs any more.
func (f *fleetUnder) settle(t *testing.T) {
	for _, s := range f.servers {
		_, err := s.awaitServing(patience)
		require.NoError(t, err)
	}
	end := time.Now().Add(patience)
	for {
		answer := &fleetv1.ListAgentsResponse{}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		err := overGRPC(ctx, f.servers[0], "ListAgents", &fleetv1.ListAgentsRequest{}, answer)
		cancel()
		working := slices.DeleteFunc(answer.GetAgents(), func(a *fleetv1.AgentSummary) bool { return a.GetStatus() == fleetv1.Agent_idle })
		if err == nil && len(working) == 0 {
			return
		}
		require.True(t, time.Now().Before(end), "agents are not idle: %v, %v", working, err)
		time.Sleep(100 * time.Millisecond)
	}
}

var tagLine = regexp.MustCompile(`t\d{6}`)

// check compares the store and the traces of runs with what callers were told.
func (f *fleetUnder) check(t *testing.T, world *fake.Place) (problems []string) {
	h := f.history
	bad := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	log, err := f.logOf(ctx)
	require.NoError(t, err)
	require.NotEmpty(t, log)
	if err := f.caughtUp(ctx, log[len(log)-1].GetCursor()); err != nil {
		bad("%v", err)
	}
	for _, w := range f.log {
		problems = append(problems, w.check(log)...)
	}
	problems = append(problems, checkLog(log)...)

	h.mu.Lock()
	agents := slices.AppendSeq(slices.Clone(f.agents), keys(h.lives))
	h.mu.Unlock()
	traces := map[string]int{}
	for _, agent := range agents {
		b, err := os.ReadFile(filepath.Join(f.witness, agent+".runs"))
		require.True(t, err == nil || errors.Is(err, os.ErrNotExist), "%v", err)
		for line := range strings.Lines(string(b)) {
			kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
			if traces[rest]++; kind == "overlap" {
				bad("%s: a run began while another was under way: %s", agent, rest)
			}
		}
	}

	tags := map[string]string{} // by task
	for _, e := range log {
		if e.GetType() == fleetv1.Event_task_created {
			tags[e.GetTaskId()] = tagLine.FindString(e.GetText())
		}
	}
	tasks, listed := f.allTasks(ctx, t), f.allAgents(ctx, t)
	h.mu.Lock()
	defer h.mu.Unlock()
	problems = append(problems, h.problems...)
	problems = append(problems, f.checkLives(log, listed, world)...)
	end := h.now()
	byTag := map[string]string{}
	ids := map[string]bool{}
	for _, task := range tasks {
		id, status := task.GetId(), task.GetStatus().String()
		tag := tags[id]
		if tag == "" {
			bad("no event says that task %s was created", id)
			continue
		}
		ids[id] = true
		if byTag[tag] != "" {
			bad("%s was started twice, as %s and %s", tag, byTag[tag], id)
		}
		byTag[tag] = id
		if !isFinal(status) {
			bad("task %s is %s at the end", id, status)
		}
		if was := h.final[id]; was != "" && was != status {
			bad("task %s was %s, and is %s", id, was, status)
		}
		runs := traces[tag]
		if f.isShared(task.GetAgentName()) {
			runs = world.Deliveries(id)
		}
		if runs > 1 || runs == 0 && status == "completed" {
			bad("task %s, which is %s, was run %d times", id, status, runs)
		}
	}
	for tag, a := range h.tags {
		id := byTag[tag]
		switch {
		case a.task != "" && a.task != id:
			bad("the acknowledged task %s of %s is lost: the store has %q", a.task, a.agent, id)
		case a.refused && id != "":
			bad("%s was refused, and is task %s", tag, id)
		case id == "":
			continue
		case a.task == "": // its caller does not know whether it was accepted
			ret := end
			if at, ok := h.firstSeen[id]; ok {
				ret = at
			}
			h.ops = append(h.ops, porcupine.Operation{Input: action{a.agent, started, id}, Call: a.call, Return: ret})
		}
		ret := end
		if at, ok := h.endSeen[id]; ok {
			ret = at
		}
		h.ops = append(h.ops, porcupine.Operation{Input: action{a.agent, finished, id}, Call: a.call, Return: ret})
	}
	for id := range h.final {
		if !ids[id] {
			bad("task %s has ended and is not in the store", id)
		}
	}
	for _, ops := range model.Partition(h.ops) {
		if result, info := porcupine.CheckOperationsVerbose(model, ops, patience); result != porcupine.Ok {
			bad("callers were told what is impossible for an agent with one task at a time (%s): %s", result, impossible(ops, info))
		}
	}
	return problems
}

// checkLog returns what is wrong with the order of events: each task begins and ends once, and an agent has one at a time.
func checkLog(log []*fleetv1.Event) (problems []string) {
	has, ended := map[string]string{}, map[string]bool{}
	for _, e := range log {
		id, agent := e.GetTaskId(), e.GetAgentName()
		switch e.GetType() {
		case fleetv1.Event_task_created:
			if has[agent] != "" {
				problems = append(problems, fmt.Sprintf("the log has task %s of %s while task %s goes on", id, agent, has[agent]))
			}
			has[agent] = id
		case fleetv1.Event_task_ended:
			if has[agent] != id || ended[id] {
				problems = append(problems, fmt.Sprintf("the log has the end of task %s of %s, which has %q", id, agent, has[agent]))
			}
			ended[id] = true
			delete(has, agent)
		case fleetv1.Event_task_output, fleetv1.Event_task_started:
			if ended[id] {
				problems = append(problems, fmt.Sprintf("the log has %s of task %s after its end", e.GetType(), id))
			}
		}
	}
	return problems
}

// allAgents returns the names of all agents that exist.
func (f *fleetUnder) allAgents(ctx context.Context, t *testing.T) (names []string) {
	answer := &fleetv1.ListAgentsResponse{}
	require.NoError(t, overGRPC(ctx, f.servers[0], "ListAgents", &fleetv1.ListAgentsRequest{}, answer))
	for _, a := range answer.GetAgents() {
		names = append(names, a.GetName())
	}
	return names
}

// allTasks returns all tasks of the store.
func (f *fleetUnder) allTasks(ctx context.Context, t *testing.T) (all []*fleetv1.Task) {
	for cursor := ""; ; {
		answer := &fleetv1.ListTasksResponse{}
		require.NoError(t, overGRPC(ctx, f.servers[0], "ListTasks", &fleetv1.ListTasksRequest{Cursor: cursor, Limit: proto.Int32(100)}, answer))
		all = append(all, answer.GetTasks()...)
		if answer.NextCursor == nil {
			return all
		}
		cursor = answer.GetNextCursor()
	}
}
