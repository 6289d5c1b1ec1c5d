package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/app"
	"fleet/internal/fleet"
	"fleet/internal/fleet/lifecycle"
	"fleet/internal/place/fake"
	"fleet/internal/store/sqlite"
)

// What the contracts of the table are: so many agents in the store, so many of them running, so many asked about at once.
const (
	contractClients = 64
	contractAgents  = 10000
	contractRunning = 100
	contractIDs     = 50
)

// printContracts measures agent_start and agent_status with many agents in the store.
func printContracts(ctx context.Context, out io.Writer, o options) (err error) {
	rows := matching([]*row{{name: "agent_status over gRPC"}, {name: "agent_start over gRPC"}}, o.only)
	if len(rows) == 0 {
		return nil
	}
	t := &testbed{world: fake.New(fake.Config{}), stop: func() error { return nil }}
	defer func() { err = errors.Join(err, t.close()) }()
	if t.data, err = os.MkdirTemp("", "fleet-bench-"); err != nil {
		return err
	}
	ids, err := fillContracts(ctx, filepath.Join(t.data, "fleet.db"))
	if err != nil {
		return err
	}
	cfg := app.DefaultConfig()
	cfg.Limits = fleet.Limits{} // measure without refusals
	cfg.HTTP, cfg.GRPC, cfg.Data, cfg.Lifecycle = "127.0.0.1:0", "127.0.0.1:0", t.data, lifecycle.Config{Project: "Setup", MaxRunning: math.MaxInt}
	if err := t.serve(cfg); err != nil {
		return err
	}
	if t.conn, err = dial(t.server.GRPCAddr()); err != nil {
		return err
	}
	c := fleetv1.NewLifecycleServiceClient(t.conn)
	for range contractRunning {
		r, err := c.AgentStart(ctx, &fleetv1.AgentStartRequest{Contract: "echo Working on it\nwait " + gate})
		if err != nil {
			return err
		}
		ids = append(ids, r.GetAgentId())
	}
	fmt.Fprintf(out, "\nContracts: %d agents in the store, %d of them running; agent_status asks for %d of them at random.\n",
		contractAgents, contractRunning, contractIDs)
	fmt.Fprintln(out, "What agent_start starts is worked on meanwhile: each agent is made, does its task, and is deleted.")
	calls := contractCalls(ctx, c, ids)
	for _, r := range rows { // agent_start leaves work behind
		r.call = calls[r.name]
		if err := measure(ctx, []*row{r}, contractClients, o.each, 1); err != nil {
			return err
		}
	}
	printCalls(out, fmt.Sprintf("contracts, %s", callers(contractClients)), "call", rows)
	return nil
}

func contractCalls(ctx context.Context, c fleetv1.LifecycleServiceClient, ids []string) map[string]func(int) error {
	return map[string]func(int) error{
		"agent_start over gRPC": func(int) error {
			_, err := c.AgentStart(ctx, &fleetv1.AgentStartRequest{Contract: "Say hello."})
			return err
		},
		"agent_status over gRPC": func(int) error {
			q := &fleetv1.AgentStatusRequest{}
			for range contractIDs {
				q.AgentIds = append(q.AgentIds, ids[rand.IntN(len(ids))])
			}
			r, err := c.AgentStatus(ctx, q, grpc.MaxCallRecvMsgSize(64<<20))
			if err == nil && (len(r.GetAgents()) != contractIDs || r.GetAgents()[0].Status == nil) {
				err = fmt.Errorf("an answer without the agents: %s", r)
			}
			return err
		},
	}
}

// fillContracts puts contracts that have ended into a new store, and returns the ids of their agents.
func fillContracts(ctx context.Context, path string) (ids []string, err error) {
	s, err := sqlite.Open(ctx, path, sqlite.Config{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	const batch = 500
	now := time.Now().UTC().Truncate(time.Second)
	for len(ids) < contractAgents-contractRunning {
		err := s.Update(ctx, func(tx fleet.Tx) error {
			for range batch {
				uid := fmt.Sprintf("00000000-0000-4000-8000-%012d", len(ids))
				a := &fleet.Agent{
					UID: uid, Name: uid, Owner: "local", Toolset: fleet.ToolsetLifecycle, Project: "Setup", OneTask: true,
					Spec: "You are an agent that works on one contract.", Recipe: &fleet.Recipe{Reports: true},
					State: fleet.StateDeleted, Desired: fleet.DesiredDeleted, CreatedAt: now, UpdatedAt: now, DeletedAt: now,
				}
				t := &fleet.Task{
					ID: "task-" + uid, AgentUID: uid, AgentName: uid, Owner: "local", Description: "Say hello.", Source: fleet.SourceHuman,
					Status: fleet.TaskCompleted, CreatedAt: now, StartedAt: now, EndedAt: now, Summary: "Said hello.",
				}
				if err := errors.Join(tx.InsertAgent(a), tx.InsertTask(t)); err != nil {
					return err
				}
				ids = append(ids, uid)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return ids, nil
}
