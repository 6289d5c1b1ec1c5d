package providers_test

import (
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"

	"fleet/internal/toolset/providers"
)

// TestTable checks that the built-in table has all required providers, and that every entry is complete.
func TestTable(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(c *providers.Config) { c.Agents = nil })
	list, err := h.List(h.as("alice"), "", false)
	require.NoError(t, err)
	kinds := map[providers.Kind]int{}
	var names []string
	for _, p := range list {
		kinds[p.Kind]++
		names = append(names, p.Name)
		require.NotEmpty(t, p.Capabilities, p.Name)
		require.Greater(t, len(p.Description), 10, p.Name)
		require.Nil(t, p.ProbeResult, "%s must have no result of a probe, because the status was not requested", p.Name)
		if p.Kind == providers.KindCLI {
			require.NotEmpty(t, p.Program(), p.Name)
		} else {
			require.NotEmpty(t, p.Model, p.Name)
		}
	}
	require.IsIncreasing(t, names)
	require.GreaterOrEqual(t, len(list), 12)
	require.GreaterOrEqual(t, kinds[providers.KindAPI], 5)
	require.GreaterOrEqual(t, kinds[providers.KindCLI], 6)
	require.Equal(t, 1, kinds[providers.KindLocal])
	for _, name := range []string{"claude", "openai", "codex", "o1", "deepseek", "qwen", "gemini", "claude-code", "codex-cli", "gemini-cli", "opencode", "ollama"} {
		require.Contains(t, names, name)
	}
}

// parseSettings parses the section for providers of a configuration file.
func parseSettings(t *testing.T, text string) providers.Settings {
	t.Helper()
	var s providers.Settings
	require.NoError(t, yaml.UnmarshalWithOptions([]byte(text), &s, yaml.Strict()))
	return s
}

func TestSettings(t *testing.T) {
	t.Parallel()
	s := parseSettings(t, `
timeout: 90s
max_concurrent: 2
per_minute: 10
tool_env: [WEATHER_TOKEN]
tool_hosts: [tools.internal, 10.0.0.7, "::1"]
agents:
  - {name: claude, model: claude-opus-4-5, description: Ours}
  - {name: o1, disabled: true}
  - {name: ollama, base_url: "http://10.0.0.5:11434/"}
  - {name: qwen, kind: local, protocol: openai, base_url: "http://127.0.0.1:8000/v1", model: qwen3}
  - name: inhouse
    kind: api
    base_url: https://llm.example.com/v1
    keys: [INHOUSE_KEY]
    model: in-1
    capabilities: [text_completion, poetry]
  - {name: mine, kind: cli, command: [mine, --ask, "{{.Prompt}}"]}
`)
	require.NoError(t, s.Validate(drivers))
	h := newHarness(t, func(c *providers.Config) { c.Settings = s })
	list, err := h.List(h.as("alice"), "", false)
	require.NoError(t, err)
	byName := map[string]*providers.Provider{}
	for _, p := range list {
		byName[p.Name] = p.Provider
	}
	require.NotContains(t, byName, "o1")
	claude := byName["claude"]
	require.Equal(t, []string{"claude-opus-4-5", "Ours", "https://api.anthropic.com"}, []string{claude.Model, claude.Description, claude.BaseURL})
	require.Equal(t, "http://10.0.0.5:11434", byName["ollama"].BaseURL)
	require.Equal(t, providers.KindLocal, byName["qwen"].Kind)
	require.Empty(t, byName["qwen"].KeyVariables, "an entry of another kind must inherit nothing")
	require.Equal(t, []string{"text_completion", "poetry"}, byName["inhouse"].Capabilities)
	require.Equal(t, "mine", byName["mine"].Program())
	require.Contains(t, byName["mine"].Capabilities, "code_editing")

	poets, err := h.List(h.as("alice"), " Poetry ", false)
	require.NoError(t, err)
	require.Len(t, poets, 1)
	nobody, err := h.List(h.as("alice"), "juggling", true)
	require.NoError(t, err)
	require.Empty(t, nobody)
	require.Contains(t, h.Capabilities(), "poetry")
}

func TestSettingsThatAreWrong(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`timeout: -1s`:                                   `providers.timeout is -1s: it must be more than 0 and at most 24h0m0s`,
		`timeout: 25h`:                                   `providers.timeout is 25h0m0s`,
		`max_concurrent: -1`:                             `providers.max_concurrent is -1`,
		`per_minute: -1`:                                 `providers.per_minute is -1`,
		`max_tools: -1`:                                  `providers.max_tools is -1`,
		`tool_env: ["A B"]`:                              `providers.tool_env has "A B"`,
		`tool_env: [FLEET_TOKEN]`:                        `providers.tool_env has "FLEET_TOKEN", a variable of Fleet itself`,
		`tool_hosts: ["http://x/"]`:                      `providers.tool_hosts has "http://x/"`,
		`tool_hosts: ["tools.internal:80"]`:              `providers.tool_hosts has "tools.internal:80"`,
		`agents: [{kind: api}]`:                          `providers.agents[0]: name is "": use 1 to 40`,
		`agents: [{name: Upper}]`:                        `providers.agents[0] "Upper": name is "Upper"`,
		`agents: [{name: x}]`:                            `providers.agents[0] "x": kind is "": it must be api, cli or local`,
		`agents: [{name: claude}, {name: claude}]`:       `providers.agents[1] "claude": there are two entries with this name`,
		`agents: [{name: x, kind: cloud}]`:               `kind is "cloud"`,
		`agents: [{name: x, kind: cli}]`:                 `command is empty`,
		`agents: [{name: x, kind: cli, command: [" "]}]`: `command is empty`,
		`agents: [{name: x, kind: cli, command: [x], driver: shell}]`:                                                `driver is "shell": it must be one of claude, codex, acp, command`,
		`agents: [{name: x, kind: cli, command: [x], base_url: "http://x"}]`:                                         `protocol, base_url and vendor are for kind api and local`,
		`agents: [{name: x, kind: api}]`:                                                                             `model is empty`,
		`agents: [{name: x, kind: api, model: m}]`:                                                                   `base_url is empty`,
		`agents: [{name: x, kind: api, model: m, base_url: "ftp://x"}]`:                                              `base_url is not an http or https URL`,
		`agents: [{name: x, kind: api, model: m, base_url: "https://u:p@x"}]`:                                        `base_url has a user`,
		`agents: [{name: x, kind: api, model: m, base_url: "https://x"}]`:                                            `keys is empty`,
		`agents: [{name: x, kind: api, model: m, base_url: "https://x", keys: ["sk-this-is-a-key-not-a-variable"]}]`: `not a valid name of an environment variable`,
		`agents: [{name: x, kind: api, model: m, base_url: "https://x", keys: [CODER_SESSION_TOKEN]}]`:               `keys has "CODER_SESSION_TOKEN", a variable of Fleet itself`,
		`agents: [{name: x, kind: api, model: m, base_url: "https://x", keys: [K], protocol: soap}]`:                 `protocol is "soap"`,
		`agents: [{name: x, kind: local, model: m, base_url: "http://x", protocol: anthropic}]`:                      `protocol is "anthropic": for kind local it must be one of openai, ollama`,
		`agents: [{name: claude, keys: [OTHER]}]`:                                                                    `keys is OTHER: with protocol anthropic it must be ANTHROPIC_API_KEY`,
		`agents: [{name: claude, capabilities: ["Code Generation"]}]`:                                                `capabilities has "Code Generation"`,
		`agents: [{name: claude, capabilities: [a, a]}]`:                                                             `capabilities has "a" twice`,
		`agents: [{name: claude, command: [claude]}]`:                                                                `driver, command and allow are for kind cli`,
		"agents: [{name: claude, model: \"a\\nb\"}]":                                                                 `model is "a\nb": it must be a single line`,
	} {
		require.ErrorContains(t, parseSettings(t, text).Validate(drivers), want, text)
	}
}

// TestNewRefuses checks that New refuses invalid settings.
func TestNewRefuses(t *testing.T) {
	t.Parallel()
	_, err := providers.New(nil, &fakeProbes{}, providers.Config{Settings: providers.Settings{Timeout: -time.Second}})
	require.Error(t, err)
}

// TestAllow checks that the configuration sets the tools of the provider claude-code. Its capabilities must match its
// tools, unless the configuration lists capabilities. A provider with the driver codex must not have allow.
func TestAllow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		entries             []providers.Provider
		allow, capabilities []string // capabilities are those that depend on the allowed tools
	}{
		"by default":              {nil, []string{"Read", "Glob", "Grep", "Edit", "Write", "NotebookEdit", "TodoWrite"}, []string{"code_editing"}},
		"with programs":           {[]providers.Provider{{Name: "claude-code", Allow: []string{"Read", "Write", "Bash(go test:*)"}}}, []string{"Read", "Write", "Bash(go test:*)"}, []string{"code_editing", "code_execution"}},
		"only to read":            {[]providers.Provider{{Name: "claude-code", Allow: []string{"Read"}}}, []string{"Read"}, nil},
		"with no tools":           {[]providers.Provider{{Name: "claude-code", Allow: []string{}}}, []string{}, nil},
		"configured capabilities": {[]providers.Provider{{Name: "claude-code", Allow: []string{"Read"}, Capabilities: []string{"code_analysis", "code_editing"}}}, []string{"Read"}, []string{"code_editing"}},
	} {
		h := newHarness(t, func(cfg *providers.Config) { cfg.Agents = append(cfg.Agents, c.entries...) })
		require.Empty(t, h.execute(providers.ExecuteRequest{Agent: "claude-code", Prompt: "p"}).Error, name)
		require.Equal(t, c.allow, h.agentConfig().Allow, name)
		list, err := h.List(h.as("alice"), "", false)
		require.NoError(t, err)
		var capabilities []string
		for _, l := range list {
			for _, capability := range l.Capabilities {
				if l.Name == "claude-code" && (capability == "code_editing" || capability == "code_execution") {
					capabilities = append(capabilities, capability)
				}
			}
		}
		require.Equal(t, c.capabilities, capabilities, name)
	}
	require.ErrorContains(t, providers.Settings{Agents: []providers.Provider{{Name: "codex-cli", Allow: []string{"Edit"}}}}.Validate(drivers), `the driver "codex" cannot limit the tools of its program: leave allow out, or use claude`)
}
