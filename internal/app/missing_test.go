package app

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/waittest"
)

// TestMissingPrograms checks that a server warns at its start about the programs, repositories and keys that its projects lack.
func TestMissingPrograms(t *testing.T) {
	t.Parallel()
	cfg, err := Load(writeConfig(t, `
local:
  sandbox: none
  projects:
    - {name: gone, driver: command, command: [no-such-program]}
    - {name: shop, repository: /no/such/repository}
    - {name: closed, driver: claude, command: [/no/such/claude]}
    - {name: open, driver: claude, command: [/no/such/claude], env: {ANTHROPIC_API_KEY: k}}
    - {name: fine}
`), []string{"FLEET_DATA=" + t.TempDir(), "FLEET_HTTP=127.0.0.1:0", "FLEET_GRPC=127.0.0.1:0"}, nil)
	require.NoError(t, err)
	var log bytes.Buffer
	a, err := Open(t.Context(), cfg, Options{Log: &log, CloseGrace: waittest.Limit})
	require.NoError(t, err)
	s, err := a.Listen("test")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Serve(ctx) }()
	cancel()
	require.NoError(t, <-ended)
	var warnings []string
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, "something is missing") {
			warnings = append(warnings, line)
		}
	}
	all := strings.Join(warnings, "")
	for _, want := range []string{`check="program no-such-program"`, `check="project shop"`, "/no/such/repository", `check="program claude"`, `check="key of claude"`, "the project closed has no ANTHROPIC_API_KEY"} {
		require.Contains(t, all, want)
	}
	require.Len(t, warnings, 4, all)
}
