package bench

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
)

// Requests of MCP.
const (
	listTool   = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_agents","arguments":{}}}`
	initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`
)

// BenchmarkList compares list_agents on each face with bare servers that use only the face's library.
func BenchmarkList(b *testing.B) {
	agents := fullOrSmall(100, 3)
	t := newFleet(b, "", agents, fleet.LocalPrincipal)
	s := t.serve(b, nil)
	p := newBareServers(b, s.waitForAgents(b, agents))
	list, tool := request("/v1/agents", "", ""), request("/mcp", listTool, "")
	gzipped := request("/v1/agents", "", "Accept-Encoding: gzip\r\n")
	unchanged := request("/v1/agents", "", "If-None-Match: "+headerOf(b, s.HTTPAddr(), list, "ETag")+"\r\n")
	const d = time.Second / 4
	for _, level := range []struct {
		clients                          int
		maxTailRatio, minTypeScriptRatio float64 // goals
	}{
		{clients: 1, minTypeScriptRatio: 1.5},
		{clients: fullOrSmall(32, 2), maxTailRatio: 4, minTypeScriptRatio: 3},
	} {
		b.Run(fmt.Sprintf("clients=%d", level.clients), func(b *testing.B) {
			overGRPC := func(conn *grpc.ClientConn, before ...func() error) measurement {
				return repeat(level.clients, listCall(b.Context(), conn, agents), before...)
			}
			overHTTP := func(addr, request string, agents int, before ...func() error) measurement {
				return repeat(level.clients, connect(b, addr, agents, slices.Repeat([]string{request}, level.clients)...), before...)
			}
			grpcGo := row{name: "grpc-go", measure: overGRPC(dial(b, p.grpcAddr))}
			netHTTP := row{name: "net-http", measure: overHTTP(p.httpAddr, list, agents)}
			netHTTP304 := row{name: "net-http-304", measure: overHTTP(p.httpAddr, request("/unchanged", "", ""), 0)}
			mcpGo := row{name: "mcp-go", measure: overHTTP(p.httpAddr, tool, agents)}
			mcpPeers := []peer{{mcpGo, 1.3}}
			if p.typeScriptAddr != "" {
				var inSessions []string // a session for each client
				for range level.clients {
					session := headerOf(b, p.typeScriptAddr, request("/mcp", initialize, ""), "Mcp-Session-Id")
					inSessions = append(inSessions, request("/mcp", listTool, "Mcp-Session-Id: "+session+"\r\n"))
				}
				mcpPeers = append(mcpPeers, peer{row{name: "TypeScript", measure: repeat(level.clients, connect(b, p.typeScriptAddr, agents, inSessions...))}, level.minTypeScriptRatio})
			}
			compare(b, d, row{name: "gRPC", maxTailRatio: level.maxTailRatio, measure: overGRPC(s.conn)}, peer{grpcGo, 0.95})
			compare(b, d, row{name: "REST", maxTailRatio: level.maxTailRatio, measure: overHTTP(s.HTTPAddr(), list, agents)}, peer{netHTTP, 1})
			compare(b, d, row{name: "REST-gzip", maxTailRatio: level.maxTailRatio, measure: overHTTP(s.HTTPAddr(), gzipped, agents)}, peer{netHTTP, 1})
			compare(b, d, row{name: "REST-304", measure: overHTTP(s.HTTPAddr(), unchanged, 0)}, peer{netHTTP, 5}, peer{netHTTP304, 0})
			compare(b, d, row{name: "MCP", maxTailRatio: level.maxTailRatio, measure: overHTTP(s.HTTPAddr(), tool, agents)}, mcpPeers...)
			for _, peer := range append(mcpPeers, peer{row: grpcGo}, peer{row: netHTTP}, peer{row: netHTTP304}) {
				compare(b, d, peer.row)
			}
			if level.clients == 1 { // with many clients that change the list, the store would be the bottleneck
				compare(b, d, row{name: "gRPC-changed", measure: overGRPC(s.conn, s.touch)}, peer{grpcGo, 0})
				compare(b, d, row{name: "REST-changed", measure: overHTTP(s.HTTPAddr(), list, agents, s.touch)}, peer{netHTTP, 0})
				compare(b, d, row{name: "REST-gzip-changed", measure: overHTTP(s.HTTPAddr(), gzipped, agents, s.touch)}, peer{netHTTP, 0})
				compare(b, d, row{name: "MCP-changed", measure: overHTTP(s.HTTPAddr(), tool, agents, s.touch)}, peer{mcpGo, 0})
			}
		})
	}
}

// listCall returns a call of list_agents over gRPC.
func listCall(ctx context.Context, conn *grpc.ClientConn, agents int) func(int) error {
	client := fleetv1.NewFleetServiceClient(conn)
	return func(int) error {
		list, err := client.ListAgents(ctx, &fleetv1.ListAgentsRequest{})
		if err == nil && len(list.GetAgents()) != agents {
			err = fmt.Errorf("the list has %d agents, expected %d", len(list.GetAgents()), agents)
		}
		return err
	}
}

// httpClient is a minimal client with one connection. The cost of the client is part of every row, so the cost of an
// http.Client would hide the differences between the rows.
type httpClient struct {
	conn net.Conn
	in   *bufio.Reader
}

func newHTTPClient(b *testing.B, addr string) *httpClient {
	conn, err := (&net.Dialer{}).DialContext(b.Context(), "tcp", addr)
	require.NoError(b, err)
	b.Cleanup(func() { _ = conn.Close() })
	return &httpClient{conn, bufio.NewReaderSize(conn, 64<<10)}
}

// do sends the request, writes the answer's body to body, and returns its header.
func (c *httpClient) do(request string, body io.Writer) (http.Header, error) {
	if _, err := io.WriteString(c.conn, request); err != nil {
		return nil, err
	}
	r, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK && r.StatusCode != http.StatusNotModified {
		return nil, fmt.Errorf("%q answers %s", request, r.Status)
	}
	_, err = io.Copy(body, r.Body)
	return r.Header, err
}

// request returns the text of a request: a POST if body is not empty, else a GET. header has further lines, each with its line end.
func request(path, body, header string) string {
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: localhost\r\nAccept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"+
		"Mcp-Protocol-Version: 2025-11-25\r\n%sContent-Length: %d\r\n\r\n%s", method, path, header, len(body), body)
}

// connect opens a connection for each request, and returns a call in which client i sends requests[i]. connect also sends the first
// request itself. It fails the benchmark if the answer has fewer agents than expected. If agents is 0, the answer must be empty, like
// a 304.
func connect(b *testing.B, addr string, agents int, requests ...string) func(client int) error {
	var clients []*httpClient
	for range requests {
		clients = append(clients, newHTTPClient(b, addr))
	}
	var body bytes.Buffer
	header, err := clients[0].do(requests[0], &body)
	require.NoError(b, err)
	if header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(bytes.NewReader(body.Bytes()))
		require.NoError(b, err)
		unpacked, err := io.ReadAll(z)
		require.NoError(b, err)
		body = *bytes.NewBuffer(unpacked)
	}
	require.Equal(b, agents == 0, body.Len() == 0)
	require.GreaterOrEqual(b, strings.Count(body.String(), "current_task_id"), agents, "%.300s", body.String())
	return func(client int) error {
		_, err := clients[client].do(requests[client], io.Discard)
		return err
	}
}

// headerOf sends a request and returns the value of a header of the answer.
func headerOf(b *testing.B, addr, request, name string) string {
	header, err := newHTTPClient(b, addr).do(request, io.Discard)
	require.NoError(b, err)
	return header.Get(name)
}
