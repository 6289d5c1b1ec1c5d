package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc"

	fleetv1 "fleet/gen/fleet/v1"
)

// listRows are the ways to list the agents, each face of the fleet followed by its bare peer. end closes the
// connections, of which there is one a client.
func listRows(ctx context.Context, t *testbed, p *peers, clients int) (rows []*row, end func(), err error) {
	bare, err := dial(p.grpcAddr)
	if err != nil {
		return nil, nil, err
	}
	h := &caller{authorization: t.authorization, client: &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: clients, MaxConnsPerHost: clients, DisableCompression: true,
	}}}
	rows = []*row{
		{name: "gRPC", call: listOverGRPC(t.outgoing(ctx), t.conn, len(t.payload.GetAgents()))},
		{name: "bare grpc-go", call: listOverGRPC(ctx, bare, len(t.payload.GetAgents()))},
		{name: "REST", call: h.get(ctx, t.server.HTTPAddr())},
		{name: "bare net/http", call: h.get(ctx, p.httpAddr)},
		{name: "MCP", call: h.callTool(ctx, t.server.HTTPAddr())},
		{name: "bare mcp-go", call: h.callTool(ctx, p.httpAddr)},
	}
	for i := 0; i < len(rows); i += 2 {
		rows[i].peer = rows[i+1]
	}
	end = func() {
		h.client.CloseIdleConnections()
		_ = bare.Close() // nobody calls any more
	}
	if err := h.check(ctx, t, p); err != nil {
		end()
		return nil, nil, err
	}
	return rows, end, nil
}

func listOverGRPC(ctx context.Context, conn *grpc.ClientConn, agents int) func(int) error {
	client := fleetv1.NewFleetServiceClient(conn)
	return func(int) error {
		r, err := client.ListAgents(ctx, &fleetv1.ListAgentsRequest{})
		if err == nil && len(r.GetAgents()) != agents {
			err = fmt.Errorf("%d agents came over gRPC, and there are %d", len(r.GetAgents()), agents)
		}
		return err
	}
}

// caller calls over HTTP. It reads answers to their end, and looks at their status alone.
type caller struct {
	client        *http.Client
	authorization string
}

const (
	jsonType = "application/json, text/event-stream" // which of the two is the server's choice, see the protocol
	toolCall = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_agents","arguments":{}}}`
)

func (c *caller) get(ctx context.Context, addr string) func(int) error {
	return func(int) error {
		return c.do(ctx, http.MethodGet, "http://"+addr+"/v1/agents", "", jsonType, io.Discard)
	}
}

func (c *caller) callTool(ctx context.Context, addr string) func(int) error {
	return func(int) error {
		return c.do(ctx, http.MethodPost, "http://"+addr+"/mcp", toolCall, jsonType, io.Discard)
	}
}

func (c *caller) do(ctx context.Context, method, url, body, accept string, into io.Writer) error {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Accept", accept)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	}
	if c.authorization != "" {
		r.Header.Set("Authorization", c.authorization)
	}
	resp, err := c.client.Do(r)
	if err != nil {
		return err
	}
	_, err = io.Copy(into, resp.Body)
	if resp.StatusCode != http.StatusOK && err == nil {
		err = fmt.Errorf("%s %s: %s", method, url, resp.Status)
	}
	return errors.Join(err, resp.Body.Close())
}

// check calls each of the HTTP servers once and fails when they do not answer the same.
func (c *caller) check(ctx context.Context, t *testbed, p *peers) error {
	for _, addr := range []string{t.server.HTTPAddr(), p.httpAddr} {
		var got bytes.Buffer
		if err := c.do(ctx, http.MethodGet, "http://"+addr+"/v1/agents", "", jsonType, &got); err != nil {
			return err
		}
		if err := same(p.json, got.Bytes(), "REST"); err != nil {
			return err
		}
		got.Reset()
		if err := c.do(ctx, http.MethodPost, "http://"+addr+"/mcp", toolCall, jsonType, &got); err != nil {
			return err
		}
		var m struct {
			Result struct {
				Content           []struct{ Text string }
				StructuredContent json.RawMessage
			}
		}
		if err := json.Unmarshal(got.Bytes(), &m); err != nil || len(m.Result.Content) != 1 {
			return fmt.Errorf("the tool at %s answers %.200q", addr, got.String())
		}
		for _, part := range [][]byte{[]byte(m.Result.Content[0].Text), m.Result.StructuredContent} {
			if err := same(p.json, part, "MCP"); err != nil {
				return err
			}
		}
	}
	return nil
}

// same returns an error unless two answers are equal, apart from the times of the last listing.
func same(want, got []byte, face string) error {
	var w, g answer
	if err := errors.Join(json.Unmarshal(want, &w), json.Unmarshal(got, &g)); err != nil {
		return err
	}
	for _, x := range []*answer{&w, &g} {
		x.ObservedAt = time.Time{}
		for i := range x.Places {
			x.Places[i].ObservedAt = time.Time{}
		}
	}
	a, err := json.Marshal(w)
	if err != nil {
		return err
	}
	b, err := json.Marshal(g)
	if err == nil && !bytes.Equal(a, b) {
		err = fmt.Errorf("over %s the answer is another one:\n%s\n%s", face, b, a)
	}
	return err
}
