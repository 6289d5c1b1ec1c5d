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
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t := newTestbed(ctx, "", r.listed)
	defer t.close()
	check(t.serve(nil))
	p := newPeers(ctx, t.listed(ctx, r.listed))
	stop, err := p.serveScript(ctx, r.peers)
	defer stop()
	if err != nil {
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
	list, server, tail := request("/v1/agents", ""), t.server.HTTPAddr(), 0.0
	unchanged := func(c *httpClient) string {
		return request("/v1/agents", "", "If-None-Match", must(c.do(list, io.Discard)).Get("ETag"))
	}
	session := func(c *httpClient) string {
		return request("/mcp", listTool, "Mcp-Session-Id", must(c.do(request("/mcp", initialize), io.Discard)).Get("Mcp-Session-Id"))
	}
	plainly := func(addr, request string, agents int) func(int) error {
		return overHTTP(ctx, clients, addr, func(*httpClient) string { return request }, agents)
	}
	rest := func(addr string) func(int) error { return plainly(addr, list, r.listed) }
	tool := func(addr string) func(int) error { return plainly(addr, request("/mcp", listTool), r.listed) }
	if clients > 1 {
		tail = 4
	}
	rows := []*row{
		{name: "gRPC", call: r.overGRPC(ctx, t.conn), peers: []peer{{"bare grpc-go", 0.95}}, tail: tail},
		{name: "bare grpc-go", call: r.overGRPC(ctx, bare)},
		{name: "REST", call: rest(server), peers: []peer{{"bare net/http", 1}}, tail: tail},
		{name: "bare net/http", call: rest(p.httpAddr)},
		{name: "REST, 304", call: overHTTP(ctx, clients, server, unchanged, 0), peers: []peer{{"bare net/http", 5}}},
		{name: "bare net/http, 304", call: plainly(p.httpAddr, request("/unchanged", ""), 0), peers: []peer{{"bare net/http", 0}}},
		{name: "MCP", call: tool(server), peers: []peer{{"bare mcp-go", 1.3}, {"TypeScript SDK", script}}, tail: tail},
		{name: "bare mcp-go", call: tool(p.httpAddr)},
	}
	if p.scriptAddr != "" {
		rows = append(rows, &row{name: "TypeScript SDK", call: overHTTP(ctx, clients, p.scriptAddr, session, r.listed)})
	}
	if clients == 1 { // not with many clients, since the store would be the bottleneck
		rows = append(rows,
			&row{name: "gRPC, changed", before: t.change, call: r.overGRPC(ctx, t.conn), peers: []peer{{"bare grpc-go", 0}}},
			&row{name: "REST, changed", before: t.change, call: rest(server), peers: []peer{{"bare net/http", 0}}},
			&row{name: "MCP, changed", before: t.change, call: tool(server), peers: []peer{{"bare mcp-go", 0}}})
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
