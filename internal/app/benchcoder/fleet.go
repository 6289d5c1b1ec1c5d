package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/app"
	"fleet/internal/app/e2e/faultproxy"
)

// fleet is a fleet in this process, on sockets of its own, that reaches Coder through a proxy which counts.
type fleet struct {
	proxy *faultproxy.Proxy
	count *counts
	data  string
	stop  func() error
	url   string
	conn  *grpc.ClientConn
	api   fleetv1.FleetServiceClient
	mcp   *client.Client
}

func newFleet(ctx context.Context, c *coder) (_ *fleet, err error) {
	f := &fleet{count: &counts{}, stop: func() error { return nil }}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.close())
		}
	}()
	if f.proxy, err = faultproxy.New(c.url, 1, f.count.add); err != nil {
		return nil, err
	}
	if f.data, err = os.MkdirTemp("", "fleet-benchcoder-"); err != nil {
		return nil, err
	}
	names := prefix
	cfg := app.DefaultConfig()
	cfg.Limits.Agents, cfg.Limits.RunningTasks, cfg.Limits.StoredBytes = 0, 0, 0 // measure without refusals
	cfg.HTTP, cfg.GRPC, cfg.Data, cfg.Places = "127.0.0.1:0", "127.0.0.1:0", f.data, []string{"coder"}
	cfg.Coder.URL, cfg.Coder.Prefix = f.proxy.URL(), &names
	a, err := app.Open(ctx, cfg, app.Options{})
	if err != nil {
		return nil, err
	}
	server, err := a.Listen("bench")
	if err != nil {
		return nil, errors.Join(err, a.Close())
	}
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() { served <- server.Serve(serving) }()
	f.stop = func() error { cancel(); return <-served }
	f.url = "http://" + server.HTTPAddr()
	if f.conn, err = grpc.NewClient(server.GRPCAddr(), grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		return nil, err
	}
	f.api = fleetv1.NewFleetServiceClient(f.conn)
	f.mcp, err = dialMCP(ctx, f.url+"/mcp")
	return f, err
}

func (f *fleet) close() error {
	var errs []error
	if f.mcp != nil {
		errs = append(errs, f.mcp.Close())
	}
	if f.conn != nil {
		errs = append(errs, f.conn.Close())
	}
	errs = append(errs, f.stop(), os.RemoveAll(f.data))
	if f.proxy != nil {
		errs = append(errs, f.proxy.Close())
	}
	return errors.Join(errs...)
}

// adopt waits until so many agents are known.
func (f *fleet) adopt(ctx context.Context, n int) (time.Duration, error) {
	begun := time.Now()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		r, err := f.api.ListAgents(ctx, &fleetv1.ListAgentsRequest{})
		if err != nil {
			return 0, err
		}
		if len(r.GetAgents()) >= n {
			return time.Since(begun), nil
		}
		if time.Since(begun) > 5*time.Minute {
			return 0, fmt.Errorf("only %d of %d agents are known after %s", len(r.GetAgents()), n, time.Since(begun))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

func (f *fleet) overGRPC(ctx context.Context) (int, error) {
	r, err := f.api.ListAgents(ctx, &fleetv1.ListAgentsRequest{})
	return proto.Size(r), err
}

func (f *fleet) overREST(ctx context.Context) (int, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url+"/v1/agents", nil)
	if err != nil {
		return 0, err
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = errors.New(res.Status)
	}
	return len(data), err
}

func (f *fleet) overMCP(ctx context.Context) (int, error) {
	return callTool(ctx, f.mcp, "list_agents", map[string]any{})
}
