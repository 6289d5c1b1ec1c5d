package main

import (
	"context"
	"fmt"
	"io"

	"google.golang.org/grpc"

	fleetv1 "fleet/gen/fleet/v1"
)

const (
	listTool   = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_agents","arguments":{}}}`
	initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`
)

// lists measures list_agents on each face, with one and with many clients.
func (r *report) lists(ctx context.Context) {
	t := must(newTestbed(ctx, r.listed))
	defer func() { check(t.close()) }()
	check(t.serve(nil))
	p := newPeers(must(t.listed(ctx, r.listed)))
	defer p.close()
	if err := p.serveScript(ctx, r.peers); err != nil {
		fmt.Fprintf(r.out, "The TypeScript peer is left out: %v.\n", err)
	}
	r.listsOf(ctx, t, p, 1, 1.5)
	r.listsOf(ctx, t, p, r.clients, 3)
}

// listsOf measures one table of lists. script is the goal for the ratio to the TypeScript peer.
func (r *report) listsOf(ctx context.Context, t *testbed, p *peers, clients int, script float64) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	bare := must(dial(p.grpcAddr))
	defer func() { _ = bare.Close() }()
	rest, tool := plainly(request("/v1/agents", "")), plainly(request("/mcp", listTool))
	unchanged := func(c *httpClient) string {
		return request("/v1/agents", "", "If-None-Match", must(c.do(rest(nil), io.Discard)).header.Get("ETag"))
	}
	over := func(addr string, begin func(*httpClient) string, want []byte) func(int) error {
		return overHTTP(ctx, clients, addr, begin, want)
	}
	server, tail := t.server.HTTPAddr(), 0.0
	if clients > 1 {
		tail = 4
	}
	rows := []*row{
		{name: "gRPC", call: r.overGRPC(ctx, t.conn), peers: []peer{{"bare grpc-go", 0.95}}, tail: tail},
		{name: "bare grpc-go", call: r.overGRPC(ctx, bare)},
		{name: "REST", call: over(server, rest, p.json), peers: []peer{{"bare net/http", 1}}, tail: tail},
		{name: "bare net/http", call: over(p.httpAddr, rest, p.json)},
		{name: "REST, 304", call: over(server, unchanged, nil), peers: []peer{{"bare net/http", 5}}},
		{name: "bare net/http, 304", call: over(p.httpAddr, plainly(request("/unchanged", "")), nil), peers: []peer{{"bare net/http", 0}}},
		{name: "MCP", call: over(server, tool, p.json), peers: []peer{{"bare mcp-go", 1.3}, {"TypeScript SDK", script}}, tail: tail},
		{name: "bare mcp-go", call: over(p.httpAddr, tool, p.json)},
	}
	if p.scriptAddr != "" {
		session := func(c *httpClient) string {
			answer := must(c.do(request("/mcp", initialize), io.Discard))
			return request("/mcp", listTool, "Mcp-Session-Id", answer.header.Get("Mcp-Session-Id"))
		}
		rows = append(rows, &row{name: "TypeScript SDK", call: over(p.scriptAddr, session, p.json)})
	}
	if clients == 1 { // with many clients the store would be the bottleneck
		rows = append(rows,
			&row{name: "gRPC, changed", before: t.change, call: r.overGRPC(ctx, t.conn), peers: []peer{{"bare grpc-go", 0}}},
			&row{name: "REST, changed", before: t.change, call: over(server, rest, nil), peers: []peer{{"bare net/http", 0}}},
			&row{name: "MCP, changed", before: t.change, call: over(server, tool, nil), peers: []peer{{"bare mcp-go", 0}}})
	}
	r.measure(ctx, fmt.Sprintf("list_agents, %d agents, %d bytes of JSON", r.listed, len(p.json)), clients, rows...)
}

func (r *report) overGRPC(ctx context.Context, conn *grpc.ClientConn) func(int) error {
	client := fleetv1.NewFleetServiceClient(conn)
	return func(int) error {
		list, err := client.ListAgents(ctx, &fleetv1.ListAgentsRequest{})
		if err == nil && len(list.GetAgents()) != r.listed {
			err = fmt.Errorf("gRPC returned %d agents, expected %d", len(list.GetAgents()), r.listed)
		}
		return err
	}
}
