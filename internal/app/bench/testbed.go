package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/app"
	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/store/postgres"
	"fleet/internal/store/sqlite"
	"fleet/internal/toolset/lifecycle"
)

// testbed is a real server with a fake place whose agents exist from the start.
type testbed struct {
	world  *fake.Place
	store  fleet.Store // the server's store, opened a second time; nil in a testbed made by beside
	url    string      // URL of the Postgres database; empty: SQLite
	data   string
	server *app.Server
	stop   func() error
	conn   *grpc.ClientConn
	fleet  fleetv1.FleetServiceClient
}

// newTestbed returns a testbed whose store is the Postgres database of the URL, or a SQLite database if url is empty.
// The store has that many idle agents with workspaces, and as many agents whose contracts have ended.
func newTestbed(ctx context.Context, url string, agents int) *testbed {
	t := (&testbed{world: fake.New(fake.Config{}), url: url}).beside()
	if url == "" {
		t.store = must(sqlite.Open(ctx, filepath.Join(t.data, "fleet.db"), sqlite.Config{}))
	} else {
		t.store = must(postgres.Open(ctx, url, postgres.Config{}))
	}
	now := time.Now().UTC().Truncate(time.Second)
	check(t.store.Update(ctx, func(tx fleet.Tx) error {
		for i := range agents {
			a := &fleet.Agent{
				UID: fmt.Sprintf("10000000-0000-4000-8000-%012d", i), Name: agentName(i), Owner: fleet.LocalPrincipal, Place: "fake",
				Project: []string{"Setup", "DataOne"}[i%2], Role: []string{"coder", "operator", "manager"}[i%3],
				Spec: "Keep the build of the payment service green, and say what you did.", WorkspaceID: fmt.Sprintf("workspace-of-%d", i),
				Location: "fake:" + agentName(i), State: fleet.StateRunning, Desired: fleet.DesiredRunning, CreatedAt: now, UpdatedAt: now,
			}
			t.world.AddWorkspace(fleet.Workspace{
				ID: a.WorkspaceID, AgentUID: a.UID, Name: a.Name, Owner: a.Owner, Project: a.Project, Role: a.Role, Location: a.Location, CreatedAt: now,
			})
			ended := &fleet.Agent{
				UID: contractID(i), Name: contractID(i), Owner: fleet.LocalPrincipal, Toolset: fleet.ToolsetLifecycle, Project: "Setup", OneTask: true,
				Spec: "You are an agent that works on one contract.", Config: &fleet.AgentConfig{Reports: true},
				State: fleet.StateDeleted, Desired: fleet.DesiredDeleted, CreatedAt: now, UpdatedAt: now, DeletedAt: now,
			}
			task := &fleet.Task{
				ID: "task-" + ended.UID, AgentUID: ended.UID, AgentName: ended.Name, Owner: ended.Owner, Description: "Say hello.", Source: fleet.SourceHuman,
				Status: fleet.TaskCompleted, CreatedAt: now, StartedAt: now, EndedAt: now, Summary: "Said hello.",
			}
			if err := errors.Join(tx.InsertAgent(a), tx.InsertAgent(ended), tx.InsertTask(task)); err != nil {
				return err
			}
		}
		return nil
	}))
	return t
}

// beside returns a testbed for another server on the same database and place. The server is not started yet.
func (t *testbed) beside() *testbed {
	return &testbed{world: t.world, url: t.url, data: must(os.MkdirTemp("", "fleet-bench-")), stop: func() error { return nil }}
}

func agentName(i int) string  { return fmt.Sprintf("agent-%05d", i) }
func contractID(i int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", i) }

// serve starts the server and connects to it. The server uses the fake place. If change is not nil, the server uses the
// configuration that change makes, with its places.
func (t *testbed) serve(change func(*app.Config)) error {
	cfg := app.DefaultConfig()
	cfg.Limits = fleet.Limits{} // no refusals while measuring
	cfg.HTTP, cfg.GRPC, cfg.Data, cfg.Lifecycle = "127.0.0.1:0", "127.0.0.1:0", t.data, lifecycle.Config{Project: "Setup", MaxRunning: math.MaxInt32}
	cfg.Store = t.url
	o := app.Options{Places: []fleet.Place{t.world}}
	if change != nil {
		change(&cfg)
		o.Places = nil
	}
	a, err := app.Open(context.Background(), cfg, o)
	if err != nil {
		return err
	}
	if t.server, err = a.Listen("bench"); err != nil {
		return errors.Join(err, a.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- t.server.Serve(ctx) }()
	t.stop = func() error { cancel(); return <-served }
	if t.conn, err = dial(t.server.GRPCAddr()); err != nil {
		return err
	}
	t.fleet = fleetv1.NewFleetServiceClient(t.conn)
	return nil
}

// until polls until ok returns true. It polls because any of several servers may do the work that ok waits for.
func until(ctx context.Context, ok func() bool) {
	for !ok() {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			check(ctx.Err())
		}
	}
}

// listed waits until the server has listed the place and has at least that many agents. It returns the list of agents.
func (t *testbed) listed(ctx context.Context, agents int) (list *fleetv1.ListAgentsResponse) {
	until(ctx, func() bool {
		list = must(t.fleet.ListAgents(ctx, &fleetv1.ListAgentsRequest{}))
		return len(list.GetAgents()) >= agents && list.GetObservedAt() != nil
	})
	return list
}

// idle waits until no agent has a running task and no server holds the lease of an agent.
func (t *testbed) idle(ctx context.Context) {
	until(ctx, func() (done bool) {
		check(t.store.View(ctx, func(tx fleet.ReadTx) error {
			found, err := tx.FindTasks(fleet.TaskFilter{Status: fleet.TaskRunning}, fleet.TaskWindow{Limit: 1})
			done = len(found.Tasks) == 0
			return err
		}))
		return done && len(must(t.store.Leases(ctx, "agent/"))) == 0
	})
}

// change updates an agent in the list and appends an event, so that the next list must be computed anew.
func (t *testbed) change() error {
	return t.store.Update(context.Background(), func(tx fleet.Tx) error {
		a, err := tx.Agent("10000000-0000-4000-8000-000000000000")
		if err != nil {
			return err
		}
		a.UpdatedAt = time.Now() // lists do not show this field
		if err := tx.UpdateAgent(a); err != nil {
			return err
		}
		return tx.Append(&fleet.Event{
			Time: time.Now(), Type: fleet.EventAgentChanged, AgentUID: a.UID, AgentName: a.Name, Owner: a.Owner, Status: string(a.State),
		})
	})
}

func (t *testbed) close() {
	if t.conn != nil {
		check(t.conn.Close())
	}
	check(t.stop())
	if t.store != nil {
		check(t.store.Close())
		t.world.Destroy()
	}
	check(os.RemoveAll(t.data))
}

func dial(addr string) (*grpc.ClientConn, error) {
	return grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithIdleTimeout(time.Hour),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
}
