package app

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet/providers"
)

// providerKey is the one key that there is in the environment of test fleets.
const providerKey = "sk-ant-test-Zq81LmTk0x"

// testProviders are the table's, which run in the fake world: claude has a key, and nothing else has one.
func testProviders(c *providers.Config) {
	c.APIBackend, c.CLIBackend = "fake", "fake"
	c.ToolEnv, c.PerMinute = []string{"CALC_TOKEN"}, 20
	c.Getenv = func(name string) string {
		return map[string]string{"ANTHROPIC_API_KEY": providerKey, "CALC_TOKEN": providerKey}[name]
	}
}

// testOutside is what their probes look at: Anthropic answers, Claude Code is installed, Ollama has no models.
type testOutside struct{}

func (testOutside) Get(_ context.Context, url string, _ map[string]string) (int, []byte, error) {
	if strings.HasSuffix(url, "/api/tags") {
		return 200, []byte(`{"models":[]}`), nil
	}
	return 200, []byte(`{"data":[]}`), nil
}

func (testOutside) Version(_ context.Context, program string) (path, output string, err error) {
	if program == "claude" {
		return "/usr/local/bin/claude", "2.1.0 (Claude Code)\n", nil
	}
	return "", "", providers.ErrNoProgram
}

func TestProvidersOfAFile(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"providers:\n  agents:\n    - name: claude\n      modle: x\n":              `fleet.yaml:4: unknown key "modle": did you mean "model"?`,
		"providers:\n  agents:\n    - {name: inhouse, kind: api, model: m}\n":      `providers.agents[0] "inhouse": base_url is empty`,
		"providers:\n  timeout: 25h\n":                                             `providers.timeout is 25h0m0s`,
		"providers:\n  agents: claude\n":                                           `fleet.yaml`,
		"providers:\n  agents:\n    - {name: claude, keys: [sk-ant-a-real-key]}\n": `no name of an environment variable`,
	} {
		_, err := Load(writeConfig(t, text), nil, nil)
		require.ErrorContains(t, err, want, text)
	}
	// What the sample shows of providers, without the marks of a comment, is a configuration.
	_, shown, found := strings.Cut(string(sample), "# providers:\n")
	require.True(t, found)
	text := "providers:\n"
	for line := range strings.Lines(shown) {
		line, ok := strings.CutPrefix(line, "# ")
		if !ok {
			break
		}
		text += line
	}
	c, err := Load(writeConfig(t, text), nil, nil)
	require.NoError(t, err, text)
	require.Len(t, c.Providers.Agents, 4)
	require.Equal(t, []string{"tools.internal"}, c.Providers.ToolHosts)
}
