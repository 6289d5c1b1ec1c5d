package driver

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// TestACPErrorOfCodex parses the output of codex-acp 2.6.0 after its model's API refused a request.
func TestACPErrorOfCodex(t *testing.T) {
	_, p := parseAll(t, Format{Kind: "acp"}, `{"type":"agent","name":"Codex","version":"2.6.0"}
{"type":"session","session":"01a20204-0c73-7a81-bad9-32538d4984c1","resumed":true}
{"type":"state","state":"running"}
{"type":"update","update":{"sessionUpdate":"session_info_update","_meta":{"codex":{"threadStatus":{"type":"active","activeFlags":[]}}}}}
{"type":"text","text":"Warning: Model metadata is missing."}
{"type":"update","update":{"sessionUpdate":"session_info_update","_meta":{"codex":{"threadStatus":{"type":"systemError"}}}}}
{"type":"text","text":"{\"error\":{\"code\":null,\"message\":\"that is too much\",\"param\":null,\"type\":\"invalid_request_error\"}}\n\n\n"}
{"type":"state","state":"idle"}
{"type":"turn","stop_reason":"end_turn"}
`)
	r := p.Result(Exit{})
	require.Equal(t, fleet.TaskFailed, r.Outcome.Status)
	require.Equal(t, "that is too much", r.Outcome.Reason)
}

// TestACPEventsOfClaude parses events of Claude Code that claude-agent-acp passes on. Their forms are those of Claude Code 2.1.332.
func TestACPEventsOfClaude(t *testing.T) {
	pieces, parser := parseAll(t, Format{Kind: "acp"}, `{"type":"session","session":"s1"}
{"type":"claude","update":{"type":"system","subtype":"compact_boundary","compact_metadata":{"trigger":"auto","pre_tokens":170000,"post_tokens":9000}}}
{"type":"claude","update":{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1795822800,"rateLimitType":"five_hour","utilization":1}}}
{"type":"claude","update":{"type":"system","subtype":"api_retry","attempt":1,"max_retries":10,"retry_delay_ms":502,"error_status":429,"error":"rate_limit"}}
{"type":"claude","update":{"type":"result","subtype":"success","is_error":true,"api_error_status":429,"result":"You've hit your limit"}}
{"type":"error","text":"claude-agent-acp: the prompt failed","code":"RATE_LIMITED"}
`)
	var steps []fleet.StepType
	for _, p := range pieces {
		if p.Data != nil {
			steps = append(steps, p.Data.Type)
		}
	}
	require.Equal(t, []fleet.StepType{fleet.StepCompaction, fleet.StepLimit, fleet.StepRetry}, steps)
	r := parser.Result(Exit{})
	require.Equal(t, fleet.CodeUsageWindow, r.Outcome.ReasonCode)
	require.EqualValues(t, 1795822800, r.Outcome.RetryAt.Unix())
}
