package driver

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// TestClaudeNotices checks that people see what Claude Code reports besides the conversation. The lines are events of
// version 2.1.332, without their ids.
func TestClaudeNotices(t *testing.T) {
	t.Parallel()
	reset := time.Date(2026, 11, 27, 9, 15, 8, 0, time.UTC)
	for _, tc := range []struct {
		line, want string
		step       fleet.Step
	}{
		{
			`{"type":"system","subtype":"api_retry","attempt":1,"max_retries":10,"retry_delay_ms":613,"error_status":529,"error":"overloaded"}`,
			"the model's API refused a request (529 overloaded): attempt 2 of 11 follows in 600ms",
			fleet.Step{Type: fleet.StepRetry, Retry: &fleet.RequestRetry{Attempt: 1, Limit: 11, Delay: 613 * time.Millisecond, Status: 529, Error: "overloaded"}},
		},
		{
			`{"type":"system","subtype":"api_retry","attempt":3,"max_retries":10,"retry_delay_ms":4000,"error_status":null,"error":"unknown"}`,
			"the model's API refused a request (unknown): attempt 4 of 11 follows in 4s",
			fleet.Step{Type: fleet.StepRetry, Retry: &fleet.RequestRetry{Attempt: 3, Limit: 11, Delay: 4 * time.Second, Error: "unknown"}},
		},
		{
			`{"type":"rate_limit_event","rate_limit_info":{"status":"allowed_warning","resetsAt":1795770908,"rateLimitType":"five_hour","utilization":0.91}}`,
			"the limit of the subscription (five hour) is 91% used; it resets at 2026-11-27T09:15:08Z",
			fleet.Step{Type: fleet.StepLimit, Limit: &fleet.UsageLimit{Window: "five_hour", Utilization: 0.91, ResetsAt: reset}},
		},
		{
			`{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1795770908,"rateLimitType":"seven_day"}}`,
			"the limit of the subscription (seven day) is used up; it resets at 2026-11-27T09:15:08Z",
			fleet.Step{Type: fleet.StepLimit, Limit: &fleet.UsageLimit{Window: "seven_day", Reached: true, ResetsAt: reset}},
		},
		{`{"type":"rate_limit_event","rate_limit_info":{"status":"allowed","utilization":0.1}}`, "", fleet.Step{}},
		{
			`{"type":"system","subtype":"permission_denied","tool_name":"Bash","tool_use_id":"t","decision_reason_type":"subcommandResults","decision_reason":"a rule","message":"Permission to use Bash has been denied."}`,
			"denied: Bash: Permission to use Bash has been denied.",
			fleet.Step{Type: fleet.StepDenied, ID: "t", Name: "Bash", Message: "Permission to use Bash has been denied."},
		},
		{
			`{"type":"system","subtype":"compact_boundary","compact_metadata":{"trigger":"auto","pre_tokens":24500,"post_tokens":2538}}`,
			"the conversation was summarised (auto): 24500 tokens became 2538",
			fleet.Step{Type: fleet.StepCompaction, Compaction: &fleet.Compaction{Trigger: "auto", Before: 24500, After: 2538}},
		},
		{
			`{"type":"system","subtype":"hook_response","hook_id":"h","hook_name":"PreToolUse:Bash","hook_event":"PreToolUse","output":"no\n","stdout":"","stderr":"no\n","exit_code":2,"outcome":"error"}`,
			"hook PreToolUse:Bash failed with exit code 2: no",
			fleet.Step{Type: fleet.StepHook, Name: "PreToolUse:Bash", Message: "no", IsError: true},
		},
		{
			`{"type":"system","subtype":"task_started","task_id":"b1","tool_use_id":"t","description":"sub","task_type":"local_agent","prompt":"Go"}`,
			"started in the background: sub",
			fleet.Step{Type: fleet.StepBackground, ID: "b1", Parent: "t", Name: "local_agent", Status: "started", Message: "sub"},
		},
		{
			`{"type":"system","subtype":"task_notification","task_id":"b1","status":"completed","output_file":"","summary":"All found"}`,
			"completed in the background: All found",
			fleet.Step{Type: fleet.StepBackground, ID: "b1", Status: "completed", Message: "All found"},
		},
		{
			`{"type":"system","subtype":"model_fallback","trigger":"overloaded","original_model":"big","fallback_model":"small","content":"Switched"}`,
			"warning: the model big is overloaded: small continues",
			fleet.Step{Type: fleet.StepWarning, Message: "the model big is overloaded: small continues"},
		},
		{
			`{"type":"fleet","subtype":"background_stopped","tasks":1,"seconds":600}`,
			"warning: work in the background did not end within 10m0s after the last answer, and was stopped",
			fleet.Step{Type: fleet.StepWarning, Message: "work in the background did not end within 10m0s after the last answer, and was stopped"},
		},
		{`{"type":"system","subtype":"background_tasks_changed","tasks":[{"task_id":"b"}]}`, "", fleet.Step{}},
		{`{"type":"system","subtype":"task_started","task_id":"f1","task_type":"local_bash","description":"sleep 12","is_backgrounded":false}`, "", fleet.Step{}},
		{`{"type":"system","subtype":"compact_boundary"}`, "", fleet.Step{}},
		{`{"type":"rate_limit_event"}`, "", fleet.Step{}},
	} {
		p := newClaudeParser(Format{})
		pieces := p.ParseLine([]byte(tc.line))
		if tc.want == "" {
			require.Empty(t, pieces, tc.line)
			continue
		}
		require.Equal(t, []Piece{{Step: true, Text: tc.want, Data: &tc.step}}, pieces, tc.line)
		require.True(t, p.hasKnownEvent, "the event must be known")
	}
}

func TestClaudeWrongKey(t *testing.T) {
	t.Parallel()
	p := newClaudeParser(Format{})
	p.ParseLine([]byte(`{"type":"fleet","subtype":"gave_up","error_status":401}`))
	p.ParseLine([]byte(`{"type":"result","subtype":"error_during_execution","is_error":true,"errors":["[ede_diagnostic]"],"total_cost_usd":0}`))
	o := p.Result(Exit{Code: 1}).Outcome
	require.Equal(t, fleet.TaskFailed, o.Status)
	require.Equal(t, "the model's API refuses the key: check the key of the project", o.Reason)
}

// TestClaudeWindows checks that each change of a usage window becomes a step. The step has the type "limit" only if the window is
// nearly or completely used up.
func TestClaudeWindows(t *testing.T) {
	t.Parallel()
	p := newClaudeParser(Format{})
	// report parses an event of Claude Code, and describes the steps.
	report := func(status, window string, five, seven float64) (steps []string) {
		line := fmt.Sprintf(`{"type":"rate_limit_event","rate_limit_info":{"status":%q,"rateLimitType":%q,"resetsAt":1795770908,"utilization":%g,"unifiedWindows":{"five_hour":{"utilization":%g,"resetsAt":1795770908},"seven_day":{"utilization":%g,"resetsAt":1796000000}}}}`, status, window, five, five, seven)
		for _, piece := range p.ParseLine([]byte(line)) {
			l := piece.Data.Limit
			steps = append(steps, fmt.Sprintf("%s %s %.2f %t", piece.Data.Type, l.Window, l.Utilization, l.Reached))
		}
		return steps
	}
	require.Equal(t, []string{"window five_hour 0.42 false", "window seven_day 0.10 false"}, report("allowed", "five_hour", 0.42, 0.1))
	require.Empty(t, report("allowed", "five_hour", 0.425, 0.1))
	require.Equal(t, []string{"window seven_day 0.11 false"}, report("allowed", "five_hour", 0.425, 0.11))
	require.Equal(t, []string{"limit five_hour 0.91 false"}, report("allowed_warning", "five_hour", 0.91, 0.11))
	require.Equal(t, []string{"limit five_hour 1.00 true"}, report("rejected", "five_hour", 1, 0.11))
}

// TestClaudeReasonCodes checks the codes of failures. The lines are events of version 2.1.332, without their ids.
func TestClaudeReasonCodes(t *testing.T) {
	t.Parallel()
	const (
		rejected = `{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1795770908,"rateLimitType":"five_hour"}}`
		paid     = `{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1795770908,"rateLimitType":"five_hour","isUsingOverage":true}}`
		refused  = `{"type":"assistant","message":{"id":"m","model":"<synthetic>","content":[{"type":"text","text":"No"}]},"error":"billing_error","is_api_error_message":true}`
		retried  = `{"type":"system","subtype":"api_retry","attempt":10,"max_retries":10,"retry_delay_ms":1,"error_status":null,"error":"unknown"}`
		result   = `{"type":"result","subtype":"success","is_error":true,"result":"You've hit your limit"`

		interrupted = `{"type":"result","subtype":"error_during_execution","is_error":true,"terminal_reason":"aborted_tools"}`
	)
	for _, tc := range []struct {
		lines []string
		want  fleet.ReasonCode
		retry string
	}{
		{[]string{rejected, result + `,"api_error_status":429,"terminal_reason":"api_error"}`}, fleet.CodeUsageWindow, "2026-11-27T09:15:08Z"},
		{[]string{rejected, interrupted}, fleet.CodeUsageWindow, "2026-11-27T09:15:08Z"},
		{[]string{paid, result + `,"api_error_status":429}`}, fleet.CodeRateLimited, ""},
		{[]string{result + `,"api_error_status":429}`}, fleet.CodeRateLimited, ""},
		{[]string{result + `,"api_error_status":529}`}, fleet.CodeOverloaded, ""},
		{[]string{result + `,"api_error_status":401}`}, fleet.CodeAuth, ""},
		{[]string{result + `,"api_error_status":404}`}, fleet.CodeInvalidRequest, ""},
		{[]string{result + `,"api_error_status":400,"terminal_reason":"prompt_too_long"}`}, fleet.CodeContextFull, ""},
		{[]string{result + `,"stop_reason":"refusal"}`}, fleet.CodeRefused, ""},
		{[]string{refused, result + `,"api_error_status":null}`}, fleet.CodeBilling, ""},
		{[]string{retried, result + `}`}, fleet.CodeNetwork, ""},
		{[]string{retried, `{"type":"assistant","message":{"content":[]}}`, result + `}`}, "", ""},
		{[]string{`{"type":"result","subtype":"error_max_turns","is_error":true}`}, fleet.CodeMaxTurns, ""},
		{[]string{`{"type":"result","subtype":"error_max_budget_usd","is_error":true}`}, fleet.CodeBudget, ""},
		{[]string{`{"type":"result","subtype":"success","result":"Done","stop_reason":"end_turn"}`}, "", ""},
		{[]string{`{"event":"begin"}`}, fleet.CodeProgramChanged, ""},
	} {
		p := newClaudeParser(Format{})
		for _, line := range tc.lines {
			p.ParseLine([]byte(line))
		}
		o := p.Result(Exit{}).Outcome
		require.Equal(t, tc.want, o.ReasonCode, "%q", tc.lines)
		if tc.retry == "" {
			require.Zero(t, o.RetryAt)
		} else {
			require.Equal(t, tc.retry, o.RetryAt.Format(time.RFC3339))
		}
	}
}

// TestClaudeForeground checks that a command in the foreground is not reported as background work, unless it moves to the background.
func TestClaudeForeground(t *testing.T) {
	t.Parallel()
	const started = `{"type":"system","subtype":"task_started","task_id":"f","task_type":"local_bash","description":"sleep 12","is_backgrounded":false}`
	const ended = `{"type":"system","subtype":"task_notification","task_id":"f","status":"completed","summary":"sleep 12"}`
	texts := func(lines ...string) (all []string) {
		p := newClaudeParser(Format{})
		for _, l := range lines {
			for _, piece := range p.ParseLine([]byte(l)) {
				all = append(all, piece.Text)
			}
		}
		return all
	}
	require.Empty(t, texts(started, ended))
	require.Equal(t, []string{"completed in the background: sleep 12"}, texts(started, `{"type":"system","subtype":"background_tasks_changed","tasks":[{"task_id":"f"}]}`, ended))
}
