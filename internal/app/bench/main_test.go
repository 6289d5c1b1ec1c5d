package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEveryRowIsMeasured(t *testing.T) {
	t.Parallel()
	for _, auth := range []string{"none", "tokens"} {
		var out strings.Builder
		require.NoError(t, command(t.Context(), []string{"-agents", "6", "-time", "1ms", "-events", "50", "-rounds", "2", "-clients", "1,2", "-auth", auth}, &out))
		for _, row := range []string{"gRPC", "bare grpc-go", "REST", "bare net/http", "MCP", "bare mcp-go", "tasks over gRPC"} {
			require.Len(t, regexp.MustCompile(`(?m)^ *`+row+`  +[1-9]`).FindAllString(out.String(), -1), 2, "%s\n%s", row, out.String())
		}
		require.Contains(t, out.String(), "log, REST, as server-sent events")
		require.NotContains(t, out.String(), "NaN")
	}
}

func TestWhatIsMeasuredCanBeChosen(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.NoError(t, command(t.Context(), []string{"-agents", "2", "-time", "1ms", "-events", "50", "-clients", "1", "-only", "^(REST|bare net/http)$"}, &out))
	require.Contains(t, out.String(), "REST")
	require.NotContains(t, out.String(), "MCP")
	require.ErrorContains(t, command(t.Context(), []string{"-agents", "2", "-clients", "2"}, &out), "half the agents")
}
