package app

import (
	"context"
	"strings"

	"fleet/internal/fleet/providers"
)

// providerKey is the one key that there is in the environment of test fleets.
const providerKey = "sk-ant-test-Zq81LmTk0x"

// testProviders are the table's, which run in the fake world: claude has a key, and nothing else has one.
func testProviders(c *providers.Config) {
	c.APIBackend, c.CLIBackend = "fake", "fake"
	c.ToolEnv = []string{"CALC_TOKEN"}
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
