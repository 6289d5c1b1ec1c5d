package shim

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestRequestsPassOn checks that all output except the events is passed on unchanged, regardless of how it is split.
func TestRequestsPassOn(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOf(rapid.SampledFrom([]string{
			"\n", "text\n", "{\"type\":\"result\"}\n", "{\"type\":\"system\",\"subtype\":\"init\"}\n", "{\"ty\n", strings.Repeat("long ", 100) + "\n",
			"{\"type\":\"stream_event\",\"event\":{}}\n", "{\"type\":\"system\",\"subtype\":\"status\",\"status\":\"requesting\"}\n",
		})).Draw(t, "lines")
		end := rapid.SampledFrom([]string{"", "the end", "{\"type\":\"s"}).Draw(t, "end")
		all, want := strings.Join(lines, "")+end, ""
		for _, l := range append(lines, end) {
			if !strings.Contains(l, "stream_event") && !strings.Contains(l, "status") {
				want += l
			}
		}
		var got bytes.Buffer
		r := newModelRequests(&got)
		for all != "" {
			n := rapid.IntRange(1, len(all)).Draw(t, "piece")
			wrote, err := r.Write([]byte(all[:n]))
			require.NoError(t, err)
			require.Equal(t, n, wrote)
			all = all[n:]
		}
		r.flush()
		require.Equal(t, want, got.String())
	})
}

func TestRequestsOfSubagents(t *testing.T) {
	t.Parallel()
	r := newModelRequests(&bytes.Buffer{})
	for _, step := range []struct {
		line string
		busy bool
		idle bool
	}{
		{`{"type":"system","subtype":"init"}`, false, false},
		{`{"type":"system","subtype":"status","status":"requesting"}`, true, false},
		{`{"type":"stream_event","event":{"type":"message_start"}}`, true, false},
		{`{"type":"stream_event","event":{"type":"message_delta","delta":{"stop_reason":"tool_use"}}}`, true, false},
		{`{"type":"stream_event","event":{"type":"message_stop"}}`, false, true},
		{`{"type":"stream_event","event":{"type":"message_start"},"parent_tool_use_id":"t1"}`, true, false},
		{`{"type":"stream_event","event":{"type":"message_start"},"parent_tool_use_id":"t2"}`, true, false},
		{`{"type":"stream_event","event":{"type":"message_stop"},"parent_tool_use_id":"t1"}`, true, false},
		{`{"type":"stream_event","event":{"type":"message_delta","delta":{"stop_reason":"end_turn"}},"parent_tool_use_id":"t2"}`, true, false},
		{`{"type":"stream_event","event":{"type":"message_stop"},"parent_tool_use_id":"t2"}`, false, true},
		{`{"type":"system","subtype":"status","status":"requesting"}`, true, false},
		{`{"type":"stream_event","event":{"type":"message_delta","delta":{"stop_reason":"end_turn"}}}`, true, false},
		{`{"type":"stream_event","event":{"type":"message_stop"}}`, true, false}, // the child is about to end by itself
		{`{"type":"stream_event",`, true, false},
	} {
		_, err := r.Write([]byte(step.line + "\n"))
		require.NoError(t, err)
		require.Equal(t, step.busy, r.isBusy(), step.line)
		select {
		case <-r.idle:
			require.True(t, step.idle, step.line)
		default:
			require.False(t, step.idle, step.line)
		}
	}
}

// TestRequestsLongLine checks that an endless line is not kept in memory.
func TestRequestsLongLine(t *testing.T) {
	t.Parallel()
	var got bytes.Buffer
	r := newModelRequests(&got)
	_, _ = r.Write([]byte(`{"type":"stream_event"`))
	for range 5 {
		_, _ = r.Write(bytes.Repeat([]byte{'x'}, 1<<20))
	}
	require.Less(t, cap(r.line), 2*maxRequestLine+1)
	require.Greater(t, got.Len(), 5<<20)
}
