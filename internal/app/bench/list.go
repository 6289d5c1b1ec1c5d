package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"

	"google.golang.org/grpc"

	fleetv1 "fleet/gen/fleet/v1"
)

const (
	listTool   = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_agents","arguments":{}}}`
	initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`
)

// lists measures list_agents on each face, with one and with many clients.
func (r *report) lists(ctx context.Context) (err error) {
	t, err := newTestbed(ctx, r.listed)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	if err := t.serve(nil); err != nil {
		return err
	}
	list, err := t.listed(ctx, r.listed)
	if err != nil {
		return err
	}
	p, err := newPeers(list)
	if err != nil {
		return err
	}
	defer p.close()
	if r.peers == "" {
		fmt.Fprintln(r.out, "The TypeScript peer is left out.")
	} else if err := p.serveScript(ctx, r.peers); err != nil {
		fmt.Fprintf(r.out, "The TypeScript peer is left out: %v.\n", err)
	}
	for _, n := range []int{1, r.clients} {
		if err := r.listsOf(ctx, t, p, n); err != nil {
			return err
		}
	}
	return nil
}

func (r *report) listsOf(ctx context.Context, t *testbed, p *peers, clients int) error {
	bareConn, err := dial(p.grpcAddr)
	if err != nil {
		return err
	}
	defer func() { _ = bareConn.Close() }()
	h := &callers{clients: clients}
	defer h.close()

	bareGRPC := &row{name: "bare grpc-go", call: r.overGRPC(ctx, bareConn)}
	bareREST := &row{name: "bare net/http", call: h.repeat(p.httpAddr, get("/v1/agents"), p.json)}
	bareMCP := &row{name: "bare mcp-go", call: h.repeat(p.httpAddr, post("/mcp", listTool), p.json)}
	tag, err := h.tag(t.server.HTTPAddr())
	if err != nil {
		return err
	}
	rows := []*row{
		{name: "gRPC", call: r.overGRPC(ctx, t.conn), peers: []*row{bareGRPC}},
		bareGRPC,
		{name: "REST", call: h.repeat(t.server.HTTPAddr(), get("/v1/agents"), p.json), peers: []*row{bareREST}},
		bareREST,
		{name: "REST, 304", call: h.repeat(t.server.HTTPAddr(), get("/v1/agents", "If-None-Match: "+tag), nil), peers: []*row{bareREST}},
		{name: "bare net/http, 304", call: h.repeat(p.httpAddr, get("/unchanged"), nil), peers: []*row{bareREST}},
		{name: "MCP", call: h.repeat(t.server.HTTPAddr(), post("/mcp", listTool), p.json), peers: []*row{bareMCP}},
		bareMCP,
	}
	if p.scriptAddr != "" {
		script := &row{name: "TypeScript SDK", call: h.session(p.scriptAddr, p.json)}
		rows[6].peers = append(rows[6].peers, script)
		rows = append(rows, script)
	}
	if clients == 1 { // with many clients the store would be the bottleneck
		rows = append(rows,
			&row{name: "gRPC, changed", before: t.change, call: r.overGRPC(ctx, t.conn), peers: []*row{bareGRPC}},
			&row{name: "REST, changed", before: t.change, call: h.repeat(t.server.HTTPAddr(), get("/v1/agents"), nil), peers: []*row{bareREST}},
			&row{name: "MCP, changed", before: t.change, call: h.repeat(t.server.HTTPAddr(), post("/mcp", listTool), nil), peers: []*row{bareMCP}})
	}
	got, err := r.measure(ctx, fmt.Sprintf("list_agents, %d agents, %d bytes of JSON", r.listed, len(p.json)), clients, rows...)
	if err != nil {
		return err
	}
	script := map[int]float64{1: 1.5}[clients]
	if script == 0 {
		script = 3
	}
	for _, g := range []struct {
		row, peer string
		bound     float64
	}{{"gRPC", "bare grpc-go", 0.95}, {"REST", "bare net/http", 1}, {"REST, 304", "bare net/http", 5}, {"MCP", "bare mcp-go", 1.3}, {"MCP", "TypeScript SDK", script}} {
		if a, b := got[g.row], got[g.peer]; a != nil && b != nil {
			r.goal(fmt.Sprintf("list_agents over %s, of %s, clients: %d", g.row, g.peer, clients), "at least", g.bound, a.ratio(b))
		}
	}
	for _, name := range []string{"gRPC", "REST", "MCP"} {
		if x := got[name]; x != nil && clients > 1 {
			r.goal(fmt.Sprintf("list_agents over %s, p99 of p50, clients: %d", name, clients), "at most", 4, x.quantile(0.99)/x.quantile(0.5))
		}
	}
	return nil
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

// callers are HTTP clients, with one connection each to each server.
type callers struct {
	clients int
	open    []*httpClient
}

func (h *callers) close() {
	for _, c := range h.open {
		_ = c.conn.Close()
	}
}

func (h *callers) dial(addr string) (*httpClient, error) {
	c, err := dialHTTP(addr)
	if err == nil {
		h.open = append(h.open, c)
	}
	return c, err
}

// repeat returns a function that sends the request on the client's own connection. The very first call checks the
// answer against the list, if one is given.
func (h *callers) repeat(addr, request string, list []byte) func(int) error {
	return h.each(addr, func(*httpClient) (string, error) { return request, nil }, list)
}

// session does the same for list_agents of an MCP server that requires a session.
func (h *callers) session(addr string, list []byte) func(int) error {
	return h.each(addr, func(c *httpClient) (string, error) {
		_, header, err := c.do(post("/mcp", initialize), io.Discard)
		if err != nil {
			return "", err
		}
		return post("/mcp", listTool, "Mcp-Session-Id: "+header.Get("Mcp-Session-Id")), nil
	}, list)
}

func (h *callers) each(addr string, begin func(*httpClient) (string, error), list []byte) func(int) error {
	conns, requests := make([]*httpClient, h.clients), make([]string, h.clients)
	var failed error
	for i := range conns {
		if conns[i], failed = h.dial(addr); failed != nil {
			break
		}
		if requests[i], failed = begin(conns[i]); failed != nil {
			break
		}
	}
	if failed == nil && list != nil {
		var body bytes.Buffer
		if _, _, failed = conns[0].do(requests[0], &body); failed == nil {
			failed = check(body.Bytes(), list)
		}
	}
	return func(client int) error {
		if failed != nil {
			return failed
		}
		status, _, err := conns[client].do(requests[client], io.Discard)
		if err == nil && status != http.StatusOK && status != http.StatusNotModified {
			err = fmt.Errorf("%s answers %d", addr, status)
		}
		return err
	}
}

// tag returns the entity tag of the fleet's list.
func (h *callers) tag(addr string) (string, error) {
	c, err := h.dial(addr)
	if err != nil {
		return "", err
	}
	_, header, err := c.do(get("/v1/agents"), io.Discard)
	return header.Get("ETag"), err
}

var times = regexp.MustCompile(`"observed_at":"[^"]*"`)

// check returns an error unless the answer is the list, or a tool result with the list as text and as structured
// content. The times of the last poll may differ.
func check(got, list []byte) error {
	var m struct {
		Result struct {
			Content           []struct{ Text string }
			StructuredContent json.RawMessage
		}
	}
	if err := json.Unmarshal(got, &m); err != nil {
		return err
	}
	parts := [][]byte{bytes.TrimSpace(got)}
	if len(m.Result.Content) == 1 {
		parts = [][]byte{[]byte(m.Result.Content[0].Text), m.Result.StructuredContent}
	}
	for _, part := range parts {
		if a, b := times.ReplaceAll(part, nil), times.ReplaceAll(list, nil); !bytes.Equal(a, b) {
			return fmt.Errorf("the servers answer differently: %.300s and %.300s", a, b)
		}
	}
	return nil
}
