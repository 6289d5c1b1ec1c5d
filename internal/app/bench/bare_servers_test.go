package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/face/wire"
)

// bareServers are servers that use only the libraries, and answer list_agents with the same values as the fleet. They encode the
// values again for every call.
type bareServers struct {
	grpcAddr, httpAddr string
	typeScriptAddr     string // address of the TypeScript server; empty: the server could not start
}

// bareFleet is the service of the bare gRPC server.
type bareFleet struct {
	fleetv1.UnimplementedFleetServiceServer
	answer *fleetv1.ListAgentsResponse
}

func (f bareFleet) ListAgents(context.Context, *fleetv1.ListAgentsRequest) (*fleetv1.ListAgentsResponse, error) {
	return f.answer, nil
}

// listAnswer is the answer of list_agents, for encoding/json.
type listAnswer struct {
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

// newBareServers starts the servers. They answer with the list.
func newBareServers(b *testing.B, list *fleetv1.ListAgentsResponse) *bareServers {
	text, err := wire.Marshal(list)
	require.NoError(b, err)
	var values listAnswer
	require.NoError(b, json.Unmarshal(text, &values))
	reencoded, err := json.Marshal(values)
	require.NoError(b, err)
	require.Equal(b, string(text), string(reencoded), "the bare servers must answer what the fleet answers")

	g := grpc.NewServer()
	fleetv1.RegisterFleetServiceServer(g, bareFleet{answer: list})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	go func() { _ = g.Serve(l) }() // errors show in the calls
	b.Cleanup(g.Stop)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/agents", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(values) // the client may have disconnected
	})
	mux.HandleFunc("GET /unchanged", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) })
	m := mcpserver.NewMCPServer("bare", "1", mcpserver.WithToolCapabilities(false))
	m.AddTool(mcp.NewTool("list_agents", mcp.WithDescription("List all agents.")), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultJSON(values)
	})
	mux.Handle("/mcp", mcpserver.NewStreamableHTTPServer(m, mcpserver.WithStateLess(true)))
	h := httptest.NewServer(mux)
	b.Cleanup(h.Close)
	return &bareServers{grpcAddr: l.Addr().String(), httpAddr: h.Listener.Addr().String(), typeScriptAddr: serveTypeScript(b, text)}
}

// serveTypeScript starts the TypeScript server. The server answers with the JSON text. serveTypeScript returns the server's address,
// or "" if the server cannot start, for example because `make bench` has not installed its packages.
func serveTypeScript(b *testing.B, answer []byte) (addr string) {
	node := exec.CommandContext(b.Context(), "node", "server.mjs")
	node.Dir, node.Stdin = "../../../.build/npm/bench", bytes.NewReader(answer)
	out, err := node.StdoutPipe()
	require.NoError(b, err)
	if err := node.Start(); err != nil {
		b.Logf("The TypeScript server is left out: %v", err)
		return ""
	}
	b.Cleanup(func() { _ = node.Wait() }) // the end of the context kills it
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Log("The TypeScript server is left out: are its packages installed?")
		return ""
	}
	return strings.TrimSpace(line)
}
