package app

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/toolset/sessions"
)

// configureTestSessions makes the fake place the place of agents of a project, and sets low limits.
func configureTestSessions(c *sessions.Config) {
	c.ProjectPlace, c.MaxSessions, c.MaxMessages = "fake", 3, 4
}

// testRegistry starts a registry at the first call, and returns its address. The registry has the agent fleet/echo:v1, and the
// image fleet/image:v1, which is not an agent.
var testRegistry = sync.OnceValues(func() (string, error) {
	document, err := os.ReadFile(filepath.Join("..", "..", "testdata", "sessions", "echo.yaml"))
	if err != nil {
		return "", err
	}
	host := strings.TrimPrefix(httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0)))).URL, "http://") // runs until the tests end
	image, err := mutate.AppendLayers(mutate.MediaType(empty.Image, types.OCIManifestSchema1), static.NewLayer(document, types.OCIUncompressedLayer))
	if err != nil {
		return "", err
	}
	agent, _ := mutate.Annotations(image, map[string]string{"io.docker.cagent.version": "v1.19.0"}).(v1.Image)
	for ref, img := range map[string]v1.Image{"/fleet/echo:v1": agent, "/fleet/image:v1": image} {
		r, err := name.ParseReference(host + ref)
		if err == nil {
			err = remote.Write(r, img)
		}
		if err != nil {
			return "", err
		}
	}
	return host, nil
})

// TestSessionStreams checks that clients get an agent's output while the agent works, and the answer afterwards. The
// output is a stream on gRPC, server-sent events on REST, and progress on MCP.
func TestSessionStreams(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, fleetConfig{}, step{Call: "create_agent_session", With: map[string]any{"agent": "echo"}, Save: map[string]string{"session": "agent_session_id"}})
	id := f.variables["session"]
	streams := map[string]func(t *testing.T, message string, onOutput func(string)) string{
		"grpc": func(t *testing.T, message string, onOutput func(string)) string {
			stream, err := fleetv1.NewSessionServiceClient(f.conn).SendMessage(t.Context(), &fleetv1.SendMessageRequest{AgentSessionId: id, Message: message})
			require.NoError(t, err)
			for {
				m, err := stream.Recv()
				require.NoError(t, err)
				if m.GetType() == fleetv1.SendMessageResponse_complete {
					_, err := stream.Recv()
					require.ErrorIs(t, err, io.EOF)
					return m.GetResponse()
				}
				onOutput(m.GetContent().GetAgentMessage())
			}
		},
		"sse": func(t *testing.T, message string, onOutput func(string)) string {
			body, err := json.Marshal(map[string]any{"message": message})
			require.NoError(t, err)
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url("/v1/sessions/"+id+"/messages"), bytes.NewReader(body))
			require.NoError(t, err)
			r.Header.Set("Accept", "text/event-stream")
			resp, err := f.http.Do(r)
			require.NoError(t, err)
			defer func() { _ = resp.Body.Close() }()
			for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
				data, ok := strings.CutPrefix(lines.Text(), "data: ")
				if !ok {
					continue
				}
				var m struct {
					Type, Response string
					Content        struct {
						Message string `json:"agent_message"`
					}
				}
				require.NoError(t, json.Unmarshal([]byte(data), &m))
				if m.Type == "complete" {
					return m.Response
				}
				onOutput(m.Content.Message)
			}
			return "no answer"
		},
		"mcp": func(t *testing.T, message string, onOutput func(string)) string {
			c, err := f.mcpClient(t.Context(), "", "sessions")
			require.NoError(t, err)
			c.OnNotification(func(n mcp.JSONRPCNotification) { onOutput(fmt.Sprint(n.Params.AdditionalFields["message"])) })
			r := mcp.CallToolRequest{}
			r.Params.Name, r.Params.Arguments = "send_message", map[string]any{"agent_session_id": id, "message": message}
			r.Params.Meta = &mcp.Meta{ProgressToken: "p"}
			result, err := c.CallTool(t.Context(), r)
			require.NoError(t, err)
			text, _ := mcp.AsTextContent(first(result.Content))
			var m struct{ Response string }
			require.NoError(t, json.Unmarshal([]byte(text.Text), &m), text.Text)
			return m.Response
		},
	}
	for face, stream := range streams {
		t.Run(face, func(t *testing.T) {
			var mu sync.Mutex
			var outputs []string
			release := sync.OnceFunc(func() { f.place.Release(face) })
			answer := stream(t, "echo first\nwait "+face+"\necho second\ndone all said", func(text string) {
				mu.Lock()
				defer mu.Unlock()
				outputs = append(outputs, text)
				if strings.Contains(text, "first") {
					release() // the agent would wait forever if the output came only after the task
				}
			})
			require.Equal(t, "all said", answer)
			mu.Lock()
			defer mu.Unlock()
			require.Contains(t, strings.Join(outputs, "|"), "first")
			require.Contains(t, strings.Join(outputs, "|"), "second")
		})
	}
}

func TestSessionSettings(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"sessions: {max_sesions: 1}":              `fleet.yaml:1: unknown key "max_sesions": did you mean "max_sessions"?`,
		"sessions: {max_sessions: -1}":            "sessions.max_sessions is -1",
		"sessions: {turn_timeout: -1s}":           "sessions.turn_timeout is -1s",
		"sessions: {pulled: {timeout: -1s}}":      "sessions.pulled.timeout is -1s",
		"cagent: {approval: [shell]}":             `unknown key "approval"`,
		"cagent: {prices: {a/b: {inputs: 1}}}":    `unknown key "inputs"`,
		"sessions: {pulled: {toolset: [shell]}}":  `unknown key "toolset"`,
		"sessions: {idle_timeout: tomorrow}":      "fleet.yaml",
		"sessions: {pulled: {registries: a.b.c}}": "fleet.yaml",
	} {
		_, err := Load(writeConfig(t, text), nil, nil)
		require.ErrorContains(t, err, want, text)
	}
	c, err := Load(writeConfig(t, `
sessions: {agents_dir: d, max_sessions: 5, evict: true, idle_timeout: 1h, pulled: {registries: [ghcr.io], toolsets: [fetch], model_hosts: ["llm:8080"]}}
cagent: {model: anthropic/x, approve: [shell], prices: {anthropic/x: {input: 1, output: 2, cache_read: 0.1, context: 1000}}}
`), nil, nil)
	require.NoError(t, err)
	require.Equal(t, sessions.Settings{
		AgentsDir: "d", MaxSessions: 5, Evict: true, IdleTimeout: time.Hour,
		Pulled: sessions.PullPolicy{Registries: []string{"ghcr.io"}, Toolsets: []string{"fetch"}, ModelHosts: []string{"llm:8080"}},
	}, c.Sessions)
	require.Equal(t, 1000, c.Cagent.Prices["anthropic/x"].ContextWindow)
}
