package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"fleet/internal/app"
	"fleet/internal/app/e2e/faultproxy"
)

const (
	bulk       = "testdata/coder-testbed/bulk.sh" // creates cheap workspaces in the test bed
	bulkPrefix = "bulk-"
	bulkAgents = 300
	quiet      = time.Minute // for counting requests
)

// besideCoder compares list_agents of a fleet with hundreds of agents in a real Coder with Coder's own lists of their
// workspaces. It also counts the requests that an idle fleet makes.
func (r *report) besideCoder(ctx context.Context) {
	c := coder{url: os.Getenv("CODER_URL"), token: os.Getenv("CODER_SESSION_TOKEN")}
	if c.url == "" || c.token == "" {
		check(errors.New("CODER_URL and CODER_SESSION_TOKEN are required: testdata/coder-testbed/env.sh prints them"))
	}
	var me struct{ Username string }
	check(json.Unmarshal(must(c.get(ctx, "/api/v2/users/me")), &me))
	if out, err := exec.CommandContext(ctx, bulk, strconv.Itoa(bulkAgents), me.Username).CombinedOutput(); err != nil {
		check(fmt.Errorf("%s: %w: %s", bulk, err, out))
	}
	defer func() { check(exec.CommandContext(context.WithoutCancel(ctx), bulk, "--rm").Run()) }()
	seen := &requests{}
	proxy := must(faultproxy.New(c.url, 1, seen.count))
	defer func() { _ = proxy.Close() }()
	t := must(newTestbed(ctx, 0))
	defer func() { check(t.close()) }()
	check(t.serve(func(cfg *app.Config) {
		cfg.Places, cfg.Coder.URL, cfg.Coder.Prefix = []string{"coder"}, proxy.URL(), new(bulkPrefix)
	}))
	r.listed = len(must(t.listed(ctx, bulkAgents)).GetAgents())
	const path = "/api/v2/workspaces?q=owner:me"
	both := []peer{{"Coder, " + path, 0}, {"Coder, coder_list_workspaces", 0}}
	over := func(request string) func(int) error {
		return overHTTP(ctx, 1, t.server.HTTPAddr(), plainly(request), nil)
	}
	r.measure(ctx, fmt.Sprintf("list_agents, %d agents in Coder", r.listed), 1,
		&row{name: both[0].row, call: func(int) error { _, err := c.get(ctx, path); return err }},
		&row{name: both[1].row, call: c.tool(ctx)},
		&row{name: "gRPC", call: r.overGRPC(ctx, t.conn), peers: both},
		&row{name: "REST", call: over(request("/v1/agents", "")), peers: both},
		&row{name: "MCP", call: over(request("/mcp", listTool)), peers: both})
	seen.take()
	select {
	case <-time.After(quiet):
	case <-ctx.Done():
		check(ctx.Err())
	}
	fmt.Fprintf(r.out, "\nrequests to Coder in %s in which nothing happens\n", quiet)
	counts := seen.take()
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(r.out, "%6d  %s\n", counts[what], what)
	}
}

// coder is a client of the deployment, without Fleet.
type coder struct{ url, token string }

func (c coder) get(ctx context.Context, path string) ([]byte, error) {
	q := must(http.NewRequestWithContext(ctx, http.MethodGet, c.url+path, nil))
	q.Header.Set("Coder-Session-Token", c.token)
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		return nil, err
	}
	defer a.Body.Close()
	data, err := io.ReadAll(a.Body)
	if err == nil && a.StatusCode != http.StatusOK {
		err = fmt.Errorf("coder answers %s with %s", path, a.Status)
	}
	return data, err
}

// tool returns a call of a tool of Coder's own MCP server.
func (c coder) tool(ctx context.Context) func(int) error {
	header := transport.WithHTTPHeaders(map[string]string{"Coder-Session-Token": c.token})
	tools := must(client.NewStreamableHttpClient(c.url+"/api/experimental/mcp/http", header))
	check(tools.Start(ctx))
	hello := mcp.InitializeRequest{}
	hello.Params.ProtocolVersion, hello.Params.ClientInfo = "2025-06-18", mcp.Implementation{Name: "bench", Version: "1"}
	must(tools.Initialize(ctx, hello))
	list := mcp.CallToolRequest{Params: mcp.CallToolParams{Name: "coder_list_workspaces", Arguments: map[string]any{"owner": "me"}}}
	return func(int) error {
		answer, err := tools.CallTool(ctx, list)
		if err == nil && answer.IsError {
			err = errors.New("coder_list_workspaces failed")
		}
		return err
	}
}

// requests counts the requests of the fleet, by purpose.
type requests struct {
	mu   sync.Mutex
	seen map[string]int
}

var ids = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

func (r *requests) count(s faultproxy.Seen) {
	path := ids.ReplaceAllString(s.Path, "ID")
	if strings.HasPrefix(path, "/@") { // to an agent, through Coder's app proxy
		path = "an agent's " + path[strings.LastIndex(path, "/"):]
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen != nil {
		r.seen[s.Method+" "+path]++
	}
}

// take returns and resets the counts.
func (r *requests) take() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := r.seen
	r.seen = map[string]int{}
	return seen
}
