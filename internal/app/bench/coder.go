package main

import (
	"cmp"
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
func besideCoder(ctx context.Context, r *report) (err error) {
	c := &coder{url: os.Getenv("CODER_URL"), token: os.Getenv("CODER_SESSION_TOKEN"), seen: map[string]int{}}
	if c.url == "" || c.token == "" {
		return errors.New("CODER_URL and CODER_SESSION_TOKEN are required: testdata/coder-testbed/env.sh prints them")
	}
	var me struct{ Username string }
	if err := c.get(ctx, "/api/v2/users/me", &me); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, bulk, strconv.Itoa(bulkAgents), me.Username).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", bulk, err, out)
	}
	defer func() {
		err = errors.Join(err, exec.CommandContext(context.WithoutCancel(ctx), bulk, "--rm").Run())
	}()
	tools, err := c.tools(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tools.Close() }()
	proxy, err := faultproxy.New(c.url, 1, c.count)
	if err != nil {
		return err
	}
	defer func() { _ = proxy.Close() }()
	t, err := newTestbed(ctx, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	if err := t.serve(func(cfg *app.Config) {
		prefix := bulkPrefix
		cfg.Places, cfg.Coder.URL, cfg.Coder.Prefix = []string{"coder"}, proxy.URL(), &prefix
	}); err != nil {
		return err
	}
	list, err := t.listed(ctx, bulkAgents)
	if err != nil {
		return err
	}
	r.listed = len(list.GetAgents())
	h := &callers{clients: 1}
	defer h.close()
	const path = "/api/v2/workspaces?q=owner:me"
	own := &row{name: "Coder, " + path, call: func(int) error { return c.get(ctx, path, nil) }}
	ownTool := &row{name: "Coder, coder_list_workspaces", call: func(int) error {
		q := mcp.CallToolRequest{Params: mcp.CallToolParams{Name: "coder_list_workspaces", Arguments: map[string]any{"owner": "me"}}}
		answer, err := tools.CallTool(ctx, q)
		if err == nil && answer.IsError {
			err = errors.New("coder_list_workspaces failed")
		}
		return err
	}}
	both := []*row{own, ownTool}
	if _, err := r.measure(ctx, fmt.Sprintf("list_agents, %d agents in Coder", r.listed), 1, own, ownTool,
		&row{name: "gRPC", call: r.overGRPC(ctx, t.conn), peers: both},
		&row{name: "REST", call: h.repeat(t.server.HTTPAddr(), get("/v1/agents"), nil), peers: both},
		&row{name: "MCP", call: h.repeat(t.server.HTTPAddr(), post("/mcp", listTool), nil), peers: both},
	); err != nil {
		return err
	}
	c.take()
	if err := wait(ctx, quiet); err != nil {
		return err
	}
	seen := c.take()
	fmt.Fprintf(r.out, "\nrequests to Coder in %s in which nothing happens\n", quiet)
	for _, what := range slices.Sorted(maps.Keys(seen)) {
		fmt.Fprintf(r.out, "%6d  %s\n", seen[what], what)
	}
	return nil
}

// coder is a client of the deployment, without Fleet.
type coder struct {
	url, token string

	mu   sync.Mutex
	seen map[string]int // requests of the fleet, by purpose
}

var ids = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

func (c *coder) count(s faultproxy.Seen) {
	path := ids.ReplaceAllString(s.Path, "ID")
	if strings.HasPrefix(path, "/@") { // to an agent, through Coder's app proxy
		path = "an agent's " + path[strings.LastIndex(path, "/"):]
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[s.Method+" "+path]++
}

// take returns and resets the counts.
func (c *coder) take() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := c.seen
	c.seen = map[string]int{}
	return seen
}

// get decodes the answer into v, if v is not nil.
func (c *coder) get(ctx context.Context, path string, v any) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+path, nil)
	if err != nil {
		return err
	}
	q.Header.Set("Coder-Session-Token", c.token)
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	data, err := io.ReadAll(a.Body)
	if err == nil && a.StatusCode != http.StatusOK {
		err = fmt.Errorf("coder answers %s with %s", path, a.Status)
	}
	if v == nil {
		return err
	}
	return cmp.Or(err, json.Unmarshal(data, v))
}

// tools returns a client of Coder's own MCP server.
func (c *coder) tools(ctx context.Context) (*client.Client, error) {
	header := transport.WithHTTPHeaders(map[string]string{"Coder-Session-Token": c.token})
	tools, err := client.NewStreamableHttpClient(c.url+"/api/experimental/mcp/http", header)
	if err != nil {
		return nil, err
	}
	if err := tools.Start(context.WithoutCancel(ctx)); err != nil {
		return nil, err
	}
	q := mcp.InitializeRequest{}
	q.Params.ProtocolVersion, q.Params.ClientInfo = "2025-06-18", mcp.Implementation{Name: "bench", Version: "1"}
	_, err = tools.Initialize(ctx, q)
	return tools, err
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
