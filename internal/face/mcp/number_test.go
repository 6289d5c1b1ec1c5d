package mcp_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/face/mcp"
)

// TestExactNumbers checks that ids and progress tokens come back as the client has sent them, on both transports.
func TestExactNumbers(t *testing.T) {
	t.Parallel()
	ts := serve(t, newStub(), mcp.Config{})
	for _, id := range []string{"1", "-1", "0", "9007199254740993", "9223372036854775807", "18446744073709551616", "-9007199254740993", "1.5", "1e3", "1.0", `"number:9007199254740993"`} {
		request := `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"create_agent","arguments":{"name":"a1","project":"p","spec":"s"},"_meta":{"progressToken":` + id + `}}}`
		a := post(t, ts.URL+"/mcp", request)
		out, err := runStdio(t, newStub(), request+"\n")
		require.NoError(t, err)
		for _, got := range []string{a.body, out} {
			require.Equal(t, 1, strings.Count(got, `"id":`+id+`,`), "%s: %s", id, got)
			require.NotContains(t, strings.ReplaceAll(got, id, ""), "number:")
			require.Contains(t, got, "structuredContent")
		}
		require.Equal(t, eventsOfCall, strings.Count(out, `"progressToken":`+id+`}`)+strings.Count(out, `"progressToken":`+id+`,`), "%s: %s", id, out)
		a = post(t, ts.URL+"/mcp", `{"jsonrpc":"2.0","id":`+id+`,"method":"no/such"}`)
		require.Contains(t, a.body, `"id":`+id+`,`)
	}
}
