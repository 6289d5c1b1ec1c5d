package e2e

import (
	"maps"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/stretchr/testify/require"

	"fleet/internal/app/e2e/faultproxy"
)

const (
	bulkScript = "../../../testdata/coder-testbed/bulk.sh" // creates cheap workspaces in the test bed
	bulkAgents = 300
	idleTime   = time.Minute // how long the benchmark counts the requests of an idle fleet
)

// BenchmarkList compares the speed of list_agents with the speed of Coder's own lists of workspaces. The fleet has
// hundreds of agents in a real Coder. The benchmark also counts the requests that an idle fleet sends to Coder.
func BenchmarkList(b *testing.B) {
	coder := newTestbed(b, "")
	out, err := exec.CommandContext(b.Context(), bulkScript, strconv.Itoa(bulkAgents), coder.user).CombinedOutput()
	require.NoError(b, err, "%s", out)
	b.Cleanup(func() { _ = exec.Command(bulkScript, "--rm").Run() }) //nolint:noctx // the benchmark's context is done
	counter := &requestCounter{}
	proxy, err := faultproxy.New(coder.url, 1, counter.count)
	require.NoError(b, err)
	b.Cleanup(func() { _ = proxy.Close() })
	s := coder.serve(b, setup{prefix: "bulk-", url: proxy.URL()})
	within(b, defaultTimeout, "all agents are listed", func() bool {
		return len(s.callerOn("grpc").call(b, "list_agents", object{}).list("agents")) >= bulkAgents
	})
	const path = "/api/v2/workspaces?q=owner:me"
	measure := func(name string, call func(testing.TB)) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				call(b)
			}
		})
	}
	measure("Coder/"+path, func(t testing.TB) {
		require.Equal(t, http.StatusOK, coder.request(t, http.MethodGet, path, nil, nil))
	})
	tools, err := client.NewStreamableHttpClient(coder.url+"/api/experimental/mcp/http", transport.WithHTTPHeaders(map[string]string{"Coder-Session-Token": coder.token}))
	require.NoError(b, err)
	require.NoError(b, tools.Start(b.Context()))
	hello := mcp.InitializeRequest{}
	hello.Params.ProtocolVersion, hello.Params.ClientInfo = "2025-06-18", mcp.Implementation{Name: "bench", Version: "1"}
	_, err = tools.Initialize(b.Context(), hello)
	require.NoError(b, err)
	measure("Coder/coder_list_workspaces", func(t testing.TB) {
		answer, err := tools.CallTool(t.Context(), mcp.CallToolRequest{Params: mcp.CallToolParams{Name: "coder_list_workspaces", Arguments: map[string]any{"owner": "me"}}})
		require.NoError(t, err)
		require.False(t, answer.IsError, "%v", answer)
	})
	for _, face := range slices.Sorted(maps.Keys(faces)) {
		measure("Fleet/"+face, func(t testing.TB) { s.callerOn(face).call(t, "list_agents", object{}) })
	}
	counter.takeCounts()
	select {
	case <-time.After(idleTime):
	case <-b.Context().Done():
	}
	b.Logf("requests of the idle fleet to Coder in %s: %v", idleTime, counter.takeCounts())
}

// requestCounter counts the fleet's requests to Coder by method and path. It starts to count when takeCounts is first called.
type requestCounter struct {
	mu     sync.Mutex
	counts map[string]int
}

var uuidPattern = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

func (r *requestCounter) count(s faultproxy.Exchange) {
	path := uuidPattern.ReplaceAllString(s.Path, "ID")
	if strings.HasPrefix(path, "/@") { // a request to an agent, through Coder's app proxy
		path = "an agent's " + path[strings.LastIndex(path, "/"):]
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counts != nil {
		r.counts[s.Method+" "+path]++
	}
}

// takeCounts returns the counts and resets them.
func (r *requestCounter) takeCounts() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := r.counts
	r.counts = map[string]int{}
	return counts
}
