package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"google.golang.org/grpc"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/face/wire"
)

// peers are servers that answer what the fleet answers to list_agents, as the libraries alone do it: each makes its
// answer from the same values, for each call anew.
type peers struct {
	json               []byte // the answer
	grpcAddr, httpAddr string
	grpc               *grpc.Server
	http               *http.Server
}

// bareFleet is the service of the bare gRPC peer.
type bareFleet struct {
	fleetv1.UnimplementedFleetServiceServer
	payload *fleetv1.ListAgentsResponse
}

func (b bareFleet) ListAgents(context.Context, *fleetv1.ListAgentsRequest) (*fleetv1.ListAgentsResponse, error) {
	return b.payload, nil
}

// answer is the answer as somebody would write it for encoding/json.
type answer struct {
	Agents     []agent   `json:"agents"`
	TotalCount int       `json:"total_count"`
	ObservedAt time.Time `json:"observed_at"`
	Places     []place   `json:"places"`
}

type place struct {
	Name       string    `json:"name"`
	OK         bool      `json:"ok"`
	ObservedAt time.Time `json:"observed_at"`
}

type agent struct {
	Name          string  `json:"name"`
	Status        string  `json:"status"`
	CurrentTask   *string `json:"current_task"`
	State         string  `json:"state"`
	Role          string  `json:"role"`
	Project       string  `json:"project"`
	CurrentTaskID *string `json:"current_task_id"`
	Owner         string  `json:"owner"`
	Place         string  `json:"place"`
}

func newPeers(payload *fleetv1.ListAgentsResponse) (_ *peers, err error) {
	p := &peers{}
	if p.json, err = wire.Marshal(payload); err != nil {
		return nil, err
	}
	var values answer
	if err := json.Unmarshal(p.json, &values); err != nil {
		return nil, err
	}
	if again, err := json.Marshal(values); err != nil || !bytes.Equal(again, p.json) {
		return nil, errors.Join(err, fmt.Errorf("the bare peers would answer something else than the fleet:\n%s\n%s", again, p.json))
	}
	p.grpc = grpc.NewServer()
	fleetv1.RegisterFleetServiceServer(p.grpc, bareFleet{payload: payload})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/agents", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(values) // the client may be gone
	})
	mux.Handle("/mcp", bareMCP(values))
	p.http = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}

	forGRPC, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	forHTTP, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, forGRPC.Close())
	}
	p.grpcAddr, p.httpAddr = forGRPC.Addr().String(), forHTTP.Addr().String()
	go func() { _ = p.grpc.Serve(forGRPC) }() // calls tell when it does not work
	go func() { _ = p.http.Serve(forHTTP) }()
	return p, nil
}

// bareMCP serves one tool over streamable HTTP, with the answer as structured content and as text, as MCP asks for.
func bareMCP(values answer) http.Handler {
	s := server.NewMCPServer("bare", "1", server.WithToolCapabilities(false))
	s.AddTool(mcp.NewTool("list_agents", mcp.WithDescription("List all agents.")), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultJSON(values)
	})
	return server.NewStreamableHTTPServer(s, server.WithStateLess(true))
}

func (p *peers) close() {
	p.grpc.Stop()
	_ = p.http.Close()
}
