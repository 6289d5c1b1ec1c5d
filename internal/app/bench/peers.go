package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"google.golang.org/grpc"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/face/wire"
)

// peers are servers that use only the libraries, and answer list_agents with the same values as the fleet. Each peer
// encodes the values anew for every call.
type peers struct {
	json               []byte // the answer of list_agents
	grpcAddr, httpAddr string
	scriptAddr         string // address of the TypeScript server; empty: it does not run
}

// bareFleet is the service of the bare gRPC peer.
type bareFleet struct {
	fleetv1.UnimplementedFleetServiceServer
	answer *fleetv1.ListAgentsResponse
}

func (b bareFleet) ListAgents(context.Context, *fleetv1.ListAgentsRequest) (*fleetv1.ListAgentsResponse, error) {
	return b.answer, nil
}

// answer is the answer of list_agents, for encoding/json.
type answer struct {
	Agents []struct {
		Name          string  `json:"name"`
		Status        string  `json:"status"`
		CurrentTask   *string `json:"current_task"`
		State         string  `json:"state"`
		Role          string  `json:"role"`
		Project       string  `json:"project"`
		CurrentTaskID *string `json:"current_task_id"`
		Owner         string  `json:"owner"`
		Place         string  `json:"place"`
	} `json:"agents"`
	TotalCount int       `json:"total_count"`
	ObservedAt time.Time `json:"observed_at"`
	Places     []struct {
		Name       string    `json:"name"`
		OK         bool      `json:"ok"`
		ObservedAt time.Time `json:"observed_at"`
	} `json:"places"`
}

// newPeers starts the peers in Go, which answer with the list. They run until the context is done.
func newPeers(ctx context.Context, list *fleetv1.ListAgentsResponse) *peers {
	p := &peers{json: must(wire.Marshal(list))}
	var values answer
	check(json.Unmarshal(p.json, &values))
	if !bytes.Equal(must(json.Marshal(values)), p.json) {
		check(fmt.Errorf("the bare peers would not answer what the fleet answers: %.300s", p.json))
	}
	g := grpc.NewServer()
	fleetv1.RegisterFleetServiceServer(g, bareFleet{answer: list})
	p.grpcAddr = serve(g.Serve)
	context.AfterFunc(ctx, g.Stop)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/agents", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(values) // the client may have disconnected
	})
	mux.HandleFunc("GET /unchanged", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) })
	s := server.NewMCPServer("bare", "1", server.WithToolCapabilities(false))
	s.AddTool(mcp.NewTool("list_agents", mcp.WithDescription("List all agents.")), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultJSON(values)
	})
	mux.Handle("/mcp", server.NewStreamableHTTPServer(s, server.WithStateLess(true)))
	h := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	p.httpAddr = serve(h.Serve)
	context.AfterFunc(ctx, func() { _ = h.Close() })
	return p
}

// serve calls the function in the background with a listener on a free port, and returns the address.
func serve(serve func(net.Listener) error) (addr string) {
	l := must(net.Listen("tcp", "127.0.0.1:0")) //nolint:noctx // it does not wait
	go func() { _ = serve(l) }()                // errors show in the calls
	return l.Addr().String()
}

// serveScript starts the TypeScript peer. dir is the directory where its packages are installed. stop ends the peer; it
// is never nil.
func (p *peers) serveScript(ctx context.Context, dir string) (stop func(), err error) {
	if dir == "" {
		return func() {}, errors.New("no directory with its packages is named")
	}
	node := exec.CommandContext(ctx, "node", "server.mjs")
	node.Dir, node.Stdin = dir, bytes.NewReader(p.json)
	out := must(node.StdoutPipe())
	if err := node.Start(); err != nil {
		return func() {}, err
	}
	stop = func() { _ = node.Process.Kill(); _ = node.Wait() }
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return stop, errors.New("node does not start the server: are its packages installed?")
	}
	p.scriptAddr = strings.TrimSpace(line)
	return stop, nil
}
