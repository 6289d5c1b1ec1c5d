package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/structpb"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/place/local"
	"fleet/internal/place/placetest/model"
	"fleet/internal/toolset/providers"
)

// providerKey is the only key in the environment of test fleets.
const providerKey = "sk-ant-test-Zq81LmTk0x"

// configureTestProviders configures the toolset of providers for test fleets. Of the built-in providers, only claude has a key.
func configureTestProviders(c *providers.Config) {
	c.ToolEnv, c.PerMinute = []string{"CALC_TOKEN"}, 20
	c.Getenv = func(name string) string {
		return map[string]string{"ANTHROPIC_API_KEY": providerKey, "CALC_TOKEN": providerKey}[name]
	}
}

// testProbeEnvironment answers the probes of providers: Anthropic answers, Claude Code is installed, and Ollama has no models.
type testProbeEnvironment struct{}

func (testProbeEnvironment) Get(_ context.Context, url string, _ map[string]string) (int, []byte, error) {
	if strings.HasSuffix(url, "/api/tags") {
		return 200, []byte(`{"models":[]}`), nil
	}
	return 200, []byte(`{"data":[]}`), nil
}

func (testProbeEnvironment) Version(_ context.Context, program string) (path, output string, err error) {
	if program == "claude" {
		return "/usr/local/bin/claude", "2.1.0 (Claude Code)\n", nil
	}
	return "", "", exec.ErrNotFound
}

// TestProviderLimitOfReplicas checks that two servers on one store together allow a principal only as many requests in a minute as
// one server, even if many requests begin at the same time.
func TestProviderLimitOfReplicas(t *testing.T) {
	t.Parallel()
	one, two := newTestReplicas(t, fleetConfig{Tokens: map[string]tokenConfig{"alice": {}}, Options: func(o *Options) {
		o.Providers = func(c *providers.Config) {
			configureTestProviders(c)
			c.MaxConcurrent = 1000 // far from this limit, transactions of the principal do not wait for each other
		}
	}})
	var accepted atomic.Int64
	var calls errgroup.Group
	for i := range 40 {
		calls.Go(func() error {
			f := []*testFleet{one, two}[i%2]
			r, err := f.callGRPC(t.Context(), call{method: methods["execute_agent_request"], args: map[string]any{"agent_name": "claude", "prompt": "done"}, caller: "alice"})
			switch {
			case err == nil && r.err == nil:
				accepted.Add(1)
			case err == nil && r.err.Reason != string(fleet.ReasonLimitReached):
				return errors.New(r.err.Message)
			}
			return err
		})
	}
	require.NoError(t, calls.Wait())
	require.EqualValues(t, 20, accepted.Load())
}

func TestProviderSettings(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"providers:\n  agents:\n    - name: claude\n      moddel: x\n":             `fleet.yaml:4: unknown key "moddel": did you mean "model"?`,
		"providers:\n  agents:\n    - {name: inhouse, kind: api, model: m}\n":      `providers.agents[0] "inhouse": base_url is empty`,
		"providers:\n  timeout: 25h\n":                                             `providers.timeout is 25h0m0s`,
		"providers:\n  agents: claude\n":                                           `fleet.yaml`,
		"providers:\n  agents:\n    - {name: claude, keys: [sk-ant-a-real-key]}\n": `not a valid name of an environment variable`,
	} {
		_, err := Load(writeConfig(t, text), nil, nil)
		require.ErrorContains(t, err, want, text)
	}
	// Without its comment marks, the sample's section about providers is a valid configuration.
	_, listed, found := strings.Cut(string(sample), "# providers:\n")
	require.True(t, found)
	text := "providers:\n"
	for line := range strings.Lines(listed) {
		line, ok := strings.CutPrefix(line, "# ")
		if !ok {
			break
		}
		text += line
	}
	c, err := Load(writeConfig(t, text), nil, nil)
	require.NoError(t, err, text)
	require.Len(t, c.Providers.Agents, 5)
	require.Equal(t, []string{"tools.internal"}, c.Providers.ToolHosts)
}

// TestProvidersWithModels sends a request to a model through a complete server. The model calls a tool that needs a
// secret of the server's environment.
func TestProvidersWithModels(t *testing.T) {
	t.Parallel()
	stub := model.New(t)
	stub.RequireKey(providerKey)
	tokens := make(chan string, 1)
	tool := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tokens <- r.Header.Get("X-Token")
		fmt.Fprint(w, "seven")
	}))
	t.Cleanup(tool.Close)
	env := map[string]string{"ANTHROPIC_API_KEY": providerKey, "CALC_TOKEN": "calc-token-4711"}

	cfg := testConfig(t)
	cfg.Providers = providers.Settings{
		Agents: []providers.Provider{{Name: "claude", BaseURL: stub.URL, Model: "stub-large"}}, ToolEnv: []string{"CALC_TOKEN"},
	}
	require.NoError(t, cfg.Validate())
	place := fake.New(fake.Config{})
	t.Cleanup(place.Destroy)
	a, err := Open(t.Context(), cfg, Options{
		Places: []fleet.Place{place}, Providers: func(c *providers.Config) { c.Getenv = func(name string) string { return env[name] } },
		Local: func(c *local.Config) {
			for name, value := range env {
				c.Environ = append(c.Environ, name+"="+value)
			}
		},
	})
	require.NoError(t, err)
	a.Start()
	t.Cleanup(func() { require.NoError(t, a.Close()) })
	c := fleetv1.NewProviderServiceClient(a.Conn())

	spec, err := structpb.NewStruct(map[string]any{
		"description": "Adds", "http": map[string]any{"url": tool.URL, "headers": map[string]any{"X-Token": "${CALC_TOKEN}"}},
	})
	require.NoError(t, err)
	_, err = c.RegisterToolWithAgent(t.Context(), &fleetv1.RegisterToolWithAgentRequest{ToolName: "add", ToolSpec: spec})
	require.NoError(t, err)
	config, err := structpb.NewStruct(map[string]any{"temperature": 0.5})
	require.NoError(t, err)
	r, err := c.ExecuteAgentRequest(t.Context(), &fleetv1.ExecuteAgentRequestRequest{
		AgentName: "claude", Prompt: "model: tool add {\"a\": 3}\nmodel: say It is seven.", Config: config,
	})
	require.NoError(t, err)
	require.Equal(t, fleetv1.ExecutionMetadata_success, r.GetStatus(), r.GetError().GetValue())
	require.Equal(t, "It is seven.", r.GetContent())
	require.Equal(t, int32(2*(model.InputTokens+model.OutputTokens)), r.GetTokensUsed())
	require.Equal(t, int32(1), r.GetMetadata().GetToolCalls())
	require.Equal(t, "calc-token-4711", <-tokens)
	require.InDelta(t, 0.5, *stub.Requests()[0].Temperature, 1e-9)

	stub.RequireKey("another one")
	r, err = c.ExecuteAgentRequest(t.Context(), &fleetv1.ExecuteAgentRequestRequest{AgentName: "claude", Prompt: "p"})
	require.NoError(t, err)
	require.Equal(t, fleetv1.ExecutionMetadata_error, r.GetStatus())
	require.Contains(t, r.GetError().GetValue(), "invalid x-api-key")
	require.NotContains(t, r.GetError().GetValue(), providerKey)
}

// TestProviderTools checks which tools of /mcp/providers have the arguments of the contract, and which of these arguments they have.
func TestProviderTools(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, fleetConfig{})
	c, err := f.mcpClient(t.Context(), "", "providers")
	require.NoError(t, err)
	list, err := c.ListTools(t.Context(), mcp.ListToolsRequest{})
	require.NoError(t, err)
	arguments := map[string][]string{}
	for _, tool := range list.Tools {
		b, err := json.Marshal(tool)
		require.NoError(t, err)
		var listed struct {
			InputSchema struct {
				Properties map[string]any `json:"properties"`
			} `json:"inputSchema"`
		}
		require.NoError(t, json.Unmarshal(b, &listed))
		for _, name := range []string{"agent_name", "prompt", "context", "capabilities", "timeout", "config", "capability_filter", "include_status", "tool_name", "tool_spec"} {
			if _, ok := listed.InputSchema.Properties[name]; ok {
				arguments[tool.Name] = append(arguments[tool.Name], name)
			}
		}
	}
	require.Equal(t, map[string][]string{
		"execute_agent_request":    {"agent_name", "prompt", "context", "capabilities", "timeout", "config"},
		"list_available_agents":    {"capability_filter", "include_status"},
		"probe_agent_status":       {"agent_name"},
		"register_tool_with_agent": {"agent_name", "tool_name", "tool_spec"},
		"get_registered_tools":     {"agent_name"},
		"remove_registered_tool":   {"agent_name", "tool_name"},
	}, arguments)
}
