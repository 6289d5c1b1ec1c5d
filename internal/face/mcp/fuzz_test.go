package mcp

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzMessage checks that any message is either refused with a valid error, or has an id and metadata that can be sent
// on.
func FuzzMessage(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_agents","_meta":{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","progressToken":1}}}`), "")
	f.Add([]byte(`{"id":"\ud800","method":1,"params":{"_meta":{"traceparent":["x"],"tracestate":"ä"}}}`), "\x7f")
	f.Add([]byte(`[{"id":null}]`), "a=b")
	f.Add([]byte(`{"result":{},"id":{}}`), "")
	f.Fuzz(func(t *testing.T, message []byte, header string) {
		m, problem := readEnvelope(message)
		if problem != nil {
			require.NotZero(t, problem.Code)
			require.True(t, json.Valid(problem.response(m.ID)))
			return
		}
		_, _ = m.isResponse(), m.isModern()
		require.True(t, json.Valid((&rpcError{Code: 1, Message: "no"}).response(m.ID)))
		pairs := m.traceMetadata(http.Header{"Traceparent": {header}})
		require.Zero(t, len(pairs)%2)
		for _, s := range pairs {
			require.NotEmpty(t, s)
			require.True(t, isPrintable(s))
		}
	})
}
