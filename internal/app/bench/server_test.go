package bench

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/app"
	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/store/postgres"
	"fleet/internal/store/sqlite"
	"fleet/internal/toolset/lifecycle"
	"fleet/internal/waittest"
)

// testbed is the fake place and the store that servers under test share.
type testbed struct {
	place *fake.Place // nil: the servers have the places of their configuration
	store fleet.Store // the servers' store, opened a second time
	url   string      // URL of the Postgres database; empty: SQLite in data
	data  string
}

// newTestbed opens a store at the URL, see testbed, and makes a fake place with the projects.
func newTestbed(b *testing.B, url string, projects ...fake.Project) *testbed {
	t := &testbed{place: fake.New(fake.Config{Projects: projects}), url: url, data: b.TempDir()}
	b.Cleanup(t.place.Destroy)
	var err error
	if url == "" {
		t.store, err = sqlite.Open(b.Context(), filepath.Join(t.data, "fleet.db"), sqlite.Config{})
	} else {
		t.store, err = postgres.Open(b.Context(), url, postgres.Config{})
	}
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, t.store.Close()) })
	return t
}

// newFleet returns a testbed with idle agents, which belong to the owners in turn, and as many agents whose contracts have
// ended.
func newFleet(b *testing.B, url string, agents int, owners ...string) *testbed {
	t := newTestbed(b, url)
	now := time.Now().UTC().Truncate(time.Second)
	t.insert(b, agents, func(tx fleet.Tx, i int) error {
		if err := t.insertAgent(tx, i, owners[i%len(owners)], []string{"Setup", "DataOne"}[i%2], now); err != nil {
			return err
		}
		ended := &fleet.Agent{
			UID: contractID(i), Name: contractID(i), Owner: fleet.LocalPrincipal, Toolset: fleet.ToolsetLifecycle, Project: "Setup", OneTask: true,
			Spec: "You are an agent that works on one contract.", Config: &fleet.AgentConfig{Reports: true},
			State: fleet.StateDeleted, Desired: fleet.DesiredDeleted, CreatedAt: now, UpdatedAt: now, DeletedAt: now,
		}
		if err := tx.Insert(ended); err != nil {
			return err
		}
		return tx.Insert(&fleet.Task{
			ID: "task-" + ended.UID, AgentUID: ended.UID, AgentName: ended.Name, Owner: ended.Owner, Description: "Say hello.", Source: fleet.SourceHuman,
			Status: fleet.TaskCompleted, CreatedAt: now, StartedAt: now, EndedAt: now, Summary: "Said hello.",
		})
	})
	return t
}

// insert calls fn for each number below n, in transactions of 10,000 calls.
func (t *testbed) insert(b *testing.B, n int, fn func(tx fleet.Tx, i int) error) {
	for first := 0; first < n; first += 10_000 {
		require.NoError(b, t.store.Update(b.Context(), func(tx fleet.Tx) error {
			for i := first; i < min(first+10_000, n); i++ {
				if err := fn(tx, i); err != nil {
					return err
				}
			}
			return nil
		}))
	}
}

// insertAgent inserts an idle agent with a workspace.
func (t *testbed) insertAgent(tx fleet.Tx, i int, owner, project string, created time.Time) error {
	w := t.place.AddWorkspace(fleet.Workspace{
		ID: "workspace-of-" + agentName(i), AgentUID: agentUID(i), Name: agentName(i), Owner: owner, Project: project,
		Role: []string{"coder", "operator", "manager"}[i%3], Location: "fake:" + agentName(i), CreatedAt: created,
	})
	return tx.Insert(&fleet.Agent{
		UID: w.AgentUID, Name: w.Name, Owner: w.Owner, Place: "fake", Project: w.Project, Role: w.Role, Spec: "Keep the build of the payment service green.",
		WorkspaceID: w.ID, Location: w.Location, State: fleet.StateRunning, Desired: fleet.DesiredRunning, CreatedAt: created, UpdatedAt: created,
	})
}

func agentUID(i int) string   { return fmt.Sprintf("10000000-0000-4000-8000-%012d", i) }
func agentName(i int) string  { return fmt.Sprintf("agent-%05d", i) }
func contractID(i int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", i) }

// touch makes an event of an agent in the list, so that the server must compute the next list again.
func (s *server) touch() error {
	_, err := s.StartAgent(context.Background(), &fleetv1.StartAgentRequest{AgentName: agentName(0)}) // the agent runs already, so the only effect is an event
	return err
}

// waitUntilIdle waits until no agent has a running task and no server holds the lease of an agent. It polls, because any of
// several servers may do the work. It polls rarely, and reads the leases only at the end, because the benchmark
// counts the database's time for the polls as time of the servers.
func (t *testbed) waitUntilIdle(b *testing.B) {
	for range time.Tick(50 * time.Millisecond) {
		var running fleet.FoundTasks
		require.NoError(b, t.store.View(b.Context(), func(tx fleet.ReadTx) (err error) {
			running, err = tx.FindTasks(fleet.TaskFilter{Status: fleet.TaskRunning}, fleet.TaskWindow{Limit: 1})
			return err
		}))
		if len(running.Tasks) > 0 {
			continue
		}
		leases, err := t.store.Leases(b.Context(), "agent/")
		require.NoError(b, err)
		if len(leases) == 0 {
			return
		}
	}
}

// server is a server under test and a client of it.
type server struct {
	*app.Server
	fleetv1.FleetServiceClient
	conn *grpc.ClientConn
	stop func() // stops the server, which otherwise stops when the benchmark ends
}

// serve starts a server on the testbed. change changes its configuration; it may be nil.
func (t *testbed) serve(b *testing.B, change func(*app.Config)) *server {
	cfg := app.DefaultConfig()
	cfg.Limits = fleet.Limits{} // no refusals while measuring
	cfg.HTTP, cfg.GRPC, cfg.Data, cfg.Store = "127.0.0.1:0", "127.0.0.1:0", t.data, t.url
	cfg.Lifecycle = lifecycle.Config{Project: "Setup", MaxRunning: math.MaxInt32}
	if t.url != "" {
		cfg.Data = b.TempDir() // each replica has its own
	}
	if change != nil {
		change(&cfg)
	}
	o := app.Options{CloseGrace: waittest.Limit}
	if t.place != nil {
		o.Places = []fleet.Place{t.place}
	}
	a, err := app.Open(b.Context(), cfg, o)
	require.NoError(b, err)
	s := &server{}
	s.Server, err = a.Listen("bench")
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	s.conn = dial(b, s.GRPCAddr())
	s.FleetServiceClient = fleetv1.NewFleetServiceClient(s.conn)
	s.stop = sync.OnceFunc(func() {
		_ = s.conn.Close()
		cancel()
		require.NoError(b, <-served)
	})
	b.Cleanup(s.stop)
	return s
}

func dial(b *testing.B, addr string) *grpc.ClientConn {
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithIdleTimeout(time.Hour),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	require.NoError(b, err)
	b.Cleanup(func() { _ = conn.Close() })
	return conn
}

// waitForAgents waits until the server has listed its place and has at least n agents, and returns the list.
func (s *server) waitForAgents(b *testing.B, n int) (list *fleetv1.ListAgentsResponse) {
	waittest.Until(b, "a listing gives no signal", func() (done bool) {
		var err error
		list, err = s.ListAgents(b.Context(), &fleetv1.ListAgentsRequest{})
		require.NoError(b, err)
		return len(list.GetAgents()) >= n && list.GetObservedAt() != nil
	})
	return list
}

// createAgent creates an agent of the project shell, and deletes it at the end of the benchmark.
func (s *server) createAgent(b *testing.B, i int) {
	_, err := s.CreateAgent(b.Context(), &fleetv1.CreateAgentRequest{Name: agentName(i), Project: "shell", Spec: "Work"})
	require.NoError(b, err)
	b.Cleanup(func() {
		_, err := s.DeleteAgent(context.WithoutCancel(b.Context()), &fleetv1.DeleteAgentRequest{AgentName: agentName(i)})
		require.NoError(b, err)
	})
}

// startTask starts a task on the agent and returns the id of the task.
func (s *server) startTask(ctx context.Context, agent int, task string) (id string, err error) {
	started, err := s.StartAgentTask(ctx, &fleetv1.StartAgentTaskRequest{AgentName: agentName(agent), TaskDescription: task})
	return started.GetTask().GetId(), err
}

// memoryInUse returns the memory use of this process in bytes. It is the least of several measurements, so that short peaks
// do not count.
func memoryInUse() float64 {
	least := math.MaxFloat64
	for range 5 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		least = min(least, float64(m.HeapAlloc+m.StackInuse))
	}
	return least
}
