package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/app"
	"fleet/internal/fleet"
	"fleet/internal/place/fake"
)

// testbed is a real server over the fake backend, with its agents: a third of them busy, so that the list has tasks.
type testbed struct {
	world         *fake.Place
	data          string
	server        *app.Server
	stop          func() error
	authorization string // of each call; "" for none
	conn          *grpc.ClientConn
	fleet         fleetv1.FleetServiceClient
	idle          []string // names of the agents without a task
	payload       *fleetv1.ListAgentsResponse
}

func newTestbed(ctx context.Context, o options) (_ *testbed, err error) {
	t := &testbed{world: fake.New(fake.Config{}), stop: func() error { return nil }}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.close())
		}
	}()
	if t.data, err = os.MkdirTemp("", "fleet-bench-"); err != nil {
		return nil, err
	}
	cfg := app.DefaultConfig()
	cfg.Limits = fleet.Limits{} // measure without refusals
	cfg.HTTP, cfg.GRPC, cfg.Data = "127.0.0.1:0", "127.0.0.1:0", t.data
	if o.auth != app.AuthNone {
		if t.authorization, err = t.makeToken(ctx, cfg); err != nil {
			return nil, err
		}
	}
	cfg.Auth = o.auth
	if err := t.serve(cfg); err != nil {
		return nil, err
	}
	if t.conn, err = dial(t.server.GRPCAddr()); err != nil {
		return nil, err
	}
	t.fleet = fleetv1.NewFleetServiceClient(t.conn)
	if err := t.makeAgents(ctx, o.agents); err != nil {
		return nil, err
	}
	t.payload, err = t.fleet.ListAgents(t.outgoing(ctx), &fleetv1.ListAgentsRequest{})
	return t, err
}

// makeToken makes a token in the data that the server will be started on.
func (t *testbed) makeToken(ctx context.Context, cfg app.Config) (string, error) {
	a, err := app.Open(ctx, cfg, app.Options{Places: []fleet.Place{t.world}})
	if err != nil {
		return "", err
	}
	r, err := fleetv1.NewTokenServiceClient(a.Conn()).CreateToken(ctx, &fleetv1.CreateTokenRequest{Name: "bench", Kind: fleetv1.Token_human, Admin: true})
	if err := errors.Join(err, a.Close()); err != nil {
		return "", err
	}
	return "Bearer " + r.GetSecret(), nil
}

// serve starts the server.
func (t *testbed) serve(cfg app.Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	a, err := app.Open(context.Background(), cfg, app.Options{Places: []fleet.Place{t.world}})
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
	return nil
}

// gate is what the busy agents wait for.
const gate = "the-end"

func (t *testbed) makeAgents(ctx context.Context, n int) error {
	g, ctx := errgroup.WithContext(t.outgoing(ctx))
	g.SetLimit(16)
	for i := range n {
		name := fmt.Sprintf("agent-%03d", i)
		busy := i%3 == 2
		if !busy {
			t.idle = append(t.idle, name)
		}
		g.Go(func() error {
			_, err := t.fleet.CreateAgent(ctx, &fleetv1.CreateAgentRequest{
				Name: name, Project: []string{"Setup", "DataOne"}[i%2], Role: []string{"coder", "operator", "manager"}[i%3],
				Spec: "Keep the build of the payment service green, and say what you did.",
			})
			if err != nil || !busy {
				return err
			}
			_, err = t.fleet.StartAgentTask(ctx, &fleetv1.StartAgentTaskRequest{
				AgentName: name, TaskDescription: "step Find out why the nightly build of the payment service fails, and fix it\nwait " + gate,
			})
			return err
		})
	}
	return g.Wait()
}

// outgoing returns a context whose gRPC calls carry the token.
func (t *testbed) outgoing(ctx context.Context) context.Context {
	if t.authorization == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", t.authorization)
}

func (t *testbed) close() error {
	var errs []error
	if t.conn != nil {
		errs = append(errs, t.conn.Close())
	}
	errs = append(errs, t.stop())
	t.world.Destroy()
	return errors.Join(append(errs, os.RemoveAll(t.data))...)
}

func dial(addr string) (*grpc.ClientConn, error) {
	return grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithIdleTimeout(time.Hour))
}
