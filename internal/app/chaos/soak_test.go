package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/app"
	"fleet/internal/fleet"
	"fleet/internal/place/local"
	"fleet/internal/runner/driver"
	"fleet/internal/runner/sandbox"
	"fleet/internal/state"
	"fleet/internal/store/postgres"
	"fleet/internal/store/postgres/pgtest"
	"fleet/internal/store/sqlite"
)

// shortRetention is how long a soaked server keeps the data that a server usually keeps for weeks.
const shortRetention = 8 * time.Second

// soakServer is a server in this process, with callers that delete the agents and tasks that they have created.
type soakServer struct {
	name   string
	store  fleet.Store // the server's store, opened again
	wal    string      // path of the write-ahead log; "" for none
	server *app.Server
	client fleetv1.FleetServiceClient
	tasks  atomic.Int64
}

// gauge is a value that must level off. slack is a difference that is allowed in addition to a tenth of the value.
type gauge struct {
	name    string
	slack   float64
	value   func() float64
	samples []float64
}

// TestSoak lets two servers work, one on SQLite and one on Postgres, while all data with a retention time expires again and again.
// Memory, goroutines, open files and databases must level off: in the later half of the test, each may be at most a tenth and its
// slack larger than in the earlier half.
func TestSoak(t *testing.T) {
	if os.Getenv("SOAK") == "" {
		t.Skip("it takes long: `make soak` runs it")
	}
	length, err := time.ParseDuration(os.Getenv("SOAK"))
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	servers := []*soakServer{newSoakServer(t, "SQLite", ""), newSoakServer(t, "Postgres", pgtest.URL(t))}
	var callers sync.WaitGroup
	for i, s := range servers {
		for j := range 2 {
			callers.Go(func() { s.runTurns(ctx, t, fmt.Sprintf("agent-%d", j), random(uint64(i), uint64(j))) })
		}
	}
	gauges := []*gauge{
		{name: "heap after a collection, bytes", slack: 2 << 20, value: liveHeap},
		{name: "goroutines", slack: 20, value: func() float64 { return float64(runtime.NumGoroutine()) }},
		{name: "open files", slack: 10, value: openFiles},
	}
	for _, s := range servers {
		gauges = append(gauges, &gauge{name: s.name + ": database, bytes", slack: 2 << 20, value: func() float64 {
			size, err := s.store.Size(ctx)
			require.NoError(t, err)
			return float64(size)
		}})
		if s.wal != "" {
			gauges = append(gauges, &gauge{name: s.name + ": write-ahead log, bytes", slack: 8 << 20, value: func() float64 {
				info, err := os.Stat(s.wal)
				require.NoError(t, err)
				return float64(info.Size())
			}})
		}
	}
	const samples = 60
	for range samples {
		pause(ctx, length/samples)
		for _, g := range gauges {
			g.samples = append(g.samples, g.value())
		}
	}
	stop()
	callers.Wait()

	var report strings.Builder
	fmt.Fprintf(&report, "%s, %.0f times the retention\n", length, length.Seconds()/shortRetention.Seconds())
	w := tabwriter.NewWriter(&report, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "\tearlier half\tlater half\tat most\t\n")
	for _, g := range gauges {
		settled := g.samples[samples/4:]
		earlier, later := median(settled[:len(settled)/2]), median(settled[len(settled)/2:])
		most := earlier*1.1 + g.slack
		fmt.Fprintf(w, "%s\t%.0f\t%.0f\t%.0f\t\n", g.name, earlier, later, most)
		if later > most {
			t.Errorf("%s grew from %.0f to %.0f: %.0f", g.name, earlier, later, g.samples)
		}
	}
	require.NoError(t, w.Flush())
	for _, s := range servers {
		fmt.Fprintf(&report, "%s: %d tasks\n", s.name, s.tasks.Load())
		require.Positive(t, s.tasks.Load())
	}
	t.Logf("\n%s", report.String())
}

func median(values []float64) float64 {
	values = slices.Sorted(slices.Values(values))
	return values[len(values)/2]
}

// liveHeap returns the size of the heap after a garbage collection, in bytes.
func liveHeap() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// openFiles returns the number of files that this process has open, or 0 if the system does not report it.
func openFiles() float64 {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0 // only Linux has /proc/self/fd
	}
	return float64(len(entries))
}

// newSoakServer starts a server whose data expires quickly. It uses the database at the URL, or SQLite if the URL is empty.
func newSoakServer(t *testing.T, name, url string) *soakServer {
	self, err := os.Executable()
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "data")
	cfg := app.DefaultConfig()
	cfg.HTTP, cfg.GRPC, cfg.Data, cfg.Store = "127.0.0.1:0", "127.0.0.1:0", dir, url
	cfg.Limits = fleet.Limits{}
	place, err := local.New(local.Config{
		Name: fleet.PlaceOn("local", cfg.Replica), Dir: dir, Program: self,
		Projects: []local.Project{{Name: "shell", Sandbox: sandbox.None, Roles: []local.Role{{Name: "operator", Permissions: &driver.Permissions{}}}}},
		PassEnv:  []string{"GORACE"}, Sandbox: sandbox.None, PollInterval: 500 * time.Millisecond,
	})
	require.NoError(t, err)
	a, err := app.Open(t.Context(), cfg, app.Options{Places: []fleet.Place{place}, Core: func(c *state.Config) {
		c.Retention, c.PayloadRetention, c.AuditRetention, c.PruneEvery, c.LeaseTTL = shortRetention, shortRetention, shortRetention, time.Second, leaseTTL
	}})
	require.NoError(t, err)
	s := &soakServer{name: name}
	s.server, err = a.Listen("test")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	served := make(chan error, 1)
	go func() { served <- s.server.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-served)
	})
	conn, err := grpc.NewClient(s.server.GRPCAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	s.client = fleetv1.NewFleetServiceClient(conn)
	if url == "" {
		s.store, err = sqlite.Open(t.Context(), filepath.Join(dir, "fleet.db"), sqlite.Config{})
		s.wal = filepath.Join(dir, "fleet.db-wal")
	} else {
		s.store, err = postgres.Open(t.Context(), url, postgres.Config{})
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.store.Close()) })
	return s
}

// runTurns repeats turns until ctx is done. A turn that fails ends it, and fails the test.
func (s *soakServer) runTurns(ctx context.Context, t *testing.T, agent string, r *rand.Rand) {
	for turn := 0; ctx.Err() == nil; turn++ {
		name := fmt.Sprintf("%s-%d", agent, turn/10)
		err := s.turn(ctx, name, turn%10 == 0, turn%10 == 9, r)
		if ctx.Err() == nil && err != nil {
			t.Errorf("%s: %v", s.name, err)
			return
		}
		s.tasks.Add(1)
	}
}

// turn starts a task over gRPC, follows and finds it, and deletes it. It also makes one request over REST and one over MCP. It first
// creates the agent if first is set, and deletes the agent at the end if last is set.
func (s *soakServer) turn(ctx context.Context, agent string, first, last bool, r *rand.Rand) error {
	if first {
		if _, err := s.client.CreateAgent(ctx, &fleetv1.CreateAgentRequest{Name: agent, Project: "shell", Spec: "Run commands.", RequestId: agent}); err != nil {
			return err
		}
	}
	started, err := s.client.StartAgentTask(ctx, &fleetv1.StartAgentTaskRequest{
		AgentName: agent, TaskDescription: fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x", 1+r.IntN(1<<16)), RequestId: fmt.Sprintf("%s-%d", agent, r.Uint64()),
	})
	if err != nil {
		return err
	}
	id := started.GetTask().GetId()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	stream, err := s.client.WatchFleet(watching, &fleetv1.WatchFleetRequest{Cursor: "now", Follow: true})
	if err != nil {
		return err
	}
	if _, err = s.client.WaitTasks(ctx, &fleetv1.WaitTasksRequest{TaskIds: []string{id}}); err != nil {
		return err
	}
	if _, err = stream.Recv(); err != nil {
		return err
	}
	if _, err = s.client.ListTasks(ctx, &fleetv1.ListTasksRequest{Text: "head"}); err != nil {
		return err
	}
	if err := s.makeHTTPCalls(ctx); err != nil {
		return err
	}
	if _, err := s.client.DeleteTask(ctx, &fleetv1.DeleteTaskRequest{TaskId: id}); err != nil || !last {
		return err
	}
	_, err = s.client.DeleteAgent(ctx, &fleetv1.DeleteAgentRequest{AgentName: agent})
	return err
}

// makeHTTPCalls lists the agents over REST, and begins an MCP session.
func (s *soakServer) makeHTTPCalls(ctx context.Context) error {
	const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"soak","version":"1"}}}`
	for _, c := range []struct{ method, path, body string }{{"GET", "/v1/agents", ""}, {"POST", "/mcp", initialize}} {
		request, err := http.NewRequestWithContext(ctx, c.method, "http://"+s.server.HTTPAddr()+c.path, strings.NewReader(c.body))
		if err != nil {
			return err
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Accept", "application/json, text/event-stream")
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, answer.Body)
		if closeErr := answer.Body.Close(); err == nil {
			err = closeErr
		}
		if err == nil && answer.StatusCode >= http.StatusBadRequest {
			err = errors.New(answer.Status)
		}
		if err != nil {
			return fmt.Errorf("%s %s: %w", c.method, c.path, err)
		}
	}
	return nil
}
