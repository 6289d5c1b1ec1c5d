package driver

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// TestACPErrorOfCodex parses the output of codex-acp 2.6.0 after its model's API refused a request.
func TestACPErrorOfCodex(t *testing.T) {
	_, r := feed(t, Format{Kind: "acp"}, []byte(`{"type":"agent","name":"Codex","version":"2.6.0"}
{"type":"session","session":"01a20204-0c73-7a81-bad9-32538d4984c1","resumed":true}
{"type":"state","state":"running"}
{"type":"update","update":{"sessionUpdate":"session_info_update","_meta":{"codex":{"threadStatus":{"type":"active","activeFlags":[]}}}}}
{"type":"update","update":{"sessionUpdate":"session_info_update","_meta":{"codex":{"threadStatus":{"type":"systemError"}}}}}
{"type":"text","text":"{\"error\":{\"code\":null,\"message\":\"that is too much\",\"param\":null,\"type\":\"invalid_request_error\"}}\n\n\n"}
{"type":"state","state":"idle"}
{"type":"turn","stop_reason":"end_turn"}
`), func() int { return 1 << 20 })
	require.Equal(t, fleet.TaskFailed, r.Outcome.Status)
	require.Equal(t, "that is too much", r.Outcome.Reason)
}
