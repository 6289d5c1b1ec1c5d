package mcp_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/face/mcp"
)

// listen is a message that subscribes to three URIs. The last one is not a resource of Fleet.
const listen = `{"jsonrpc":"2.0","id":"l1","method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["fleet://agent/papi","fleet://task/` +
	stubTask + `/transcript","file:///etc/passwd"]},` + modernParams + `}}`

// next returns the next message that the server sends, without the framing of an event stream.
func next(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	for {
		text, err := r.ReadString('\n')
		require.NoError(t, err)
		if text = strings.TrimPrefix(strings.TrimSpace(text), "data: "); strings.HasPrefix(text, "{") {
			return text
		}
	}
}

const (
	acknowledged = `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"l1"},"notifications":{"resourceSubscriptions":["fleet://agent/papi","fleet://task/` + stubTask + `/transcript"]}}}`
	updated      = `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"l1"},"uri":"fleet://agent/papi"}}`
)

func TestSubscriptions(t *testing.T) {
	t.Parallel()
	s := newStub()
	url := serve(t, s, mcp.Config{}).URL + "/mcp"
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(listen))
	require.NoError(t, err)
	for k, v := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen"} {
		r.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
	in := bufio.NewReader(resp.Body)
	require.JSONEq(t, acknowledged, next(t, in))
	s.logEvent("sony", "is not subscribed")
	s.logEvent("Papi", "begins to work")
	require.JSONEq(t, updated, next(t, in))
	cancel()
	<-s.watchEnded

	require.Contains(t, ask(t, url, "server/discover", "", "", true).body, `"subscribe":true`)
	require.NotContains(t, post(t, url, initialize).body, `"subscribe"`, "older revisions cannot subscribe")
	many := strings.Repeat(`"fleet://agent/a",`, 3) + `"fleet://agent/b"`
	for i := range 101 {
		many += `,"fleet://agent/a` + strings.Repeat("a", i) + `"`
	}
	require.Contains(t, ask(t, url, "subscriptions/listen", "", `"notifications":{"resourceSubscriptions":[`+many+`]}`, true).body, "at most 100")
	require.Equal(t, -32020, post(t, url, listen, "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/list").Error.Code)
}

func TestStdioSubscriptions(t *testing.T) {
	t.Parallel()
	s := newStub()
	in, write := io.Pipe()
	read, out := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- mcp.Stdio(t.Context(), connTo(s), mcp.Config{}, in, out) }()
	_, err := io.WriteString(write, listen+"\n")
	require.NoError(t, err)
	lines := bufio.NewReader(read)
	require.JSONEq(t, acknowledged, next(t, lines))
	s.logEvent("papi", "begins to work")
	require.JSONEq(t, updated, next(t, lines))
	require.NoError(t, write.Close())
	require.JSONEq(t, `{"jsonrpc":"2.0","id":"l1","result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":"l1"}}}`, next(t, lines))
	require.NoError(t, <-done)
}
