//go:build cgo

package run_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// events returns events without names, one for each text.
func events(texts ...string) string { return "data: " + strings.Join(texts, "\n\ndata: ") + "\n\n" }

// chatEvent returns an event of chat completions with the delta, the finish reason and further fields.
func chatEvent(delta, finish, more string) string {
	return `{"id":"c","object":"chat.completion.chunk","model":"stub-large","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + finish + `}]` + more + `}`
}

// modelStreams are streams of model APIs, and of servers with the same protocols, with the text and the usage that each
// contains. Each stream is the answer to one request.
var modelStreams = map[string]struct {
	api, stream string
	text        string
	usage       [2]int64 // input and output
	warning     string
}{
	"chat without usage":           {"openai", events(chatEvent(`{"content":"hello"}`, `null`, ``), chatEvent(`{}`, `"stop"`, ``), `[DONE]`), "hello", [2]int64{}, ""},
	"chat without an end":          {"openai", events(chatEvent(`{"content":"hello"}`, `null`, ``), chatEvent(`{}`, `"stop"`, ``)), "hello", [2]int64{}, ""},
	"chat with text at its end":    {"openai", events(chatEvent(`{"content":"hel"}`, `null`, ``), chatEvent(`{"content":"lo"}`, `"stop"`, `,"usage":{"prompt_tokens":3,"completion_tokens":4}`), `[DONE]`), "hello", [2]int64{3, 4}, ""},
	"chat in one event":            {"openai", events(chatEvent(`{"content":"hello"}`, `"stop"`, ``), `[DONE]`), "hello", [2]int64{}, ""},
	"chat cut off":                 {"openai", events(chatEvent(`{"content":"hello"}`, `null`, ``), chatEvent(`{}`, `"length"`, ``), `[DONE]`), "hello", [2]int64{}, "cut off at the limit of tokens"},
	"chat cut off, with usage":     {"openai", events(chatEvent(`{"content":"hello"}`, `"length"`, ``), `{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}`, `[DONE]`), "hello", [2]int64{3, 4}, "cut off at the limit of tokens"},
	"chat with usage everywhere":   {"openai", events(chatEvent(`{"content":"hel"}`, `null`, `,"usage":{"prompt_tokens":3,"completion_tokens":1}`), chatEvent(`{"content":"lo"}`, `null`, `,"usage":{"prompt_tokens":3,"completion_tokens":2}`), chatEvent(`{}`, `"stop"`, ``), `[DONE]`), "hello", [2]int64{3, 2}, ""},
	"chat with usage before text":  {"openai", events(chatEvent(`{"content":""}`, `null`, `,"usage":{"prompt_tokens":3,"completion_tokens":0}`), chatEvent(`{"content":"hello"}`, `"stop"`, ``)), "hello", [2]int64{3, 0}, ""},
	"chat with usage of Groq":      {"openai", events(chatEvent(`{"content":"hello"}`, `null`, ``), chatEvent(`{}`, `"stop"`, `,"x_groq":{"id":"r","usage":{"queue_time":0.1,"prompt_tokens":5,"completion_tokens":6,"total_tokens":11}}`), `[DONE]`), "hello", [2]int64{5, 6}, ""},
	"chat with cached tokens":      {"openai", events(chatEvent(`{"content":"hello"}`, `"stop"`, `,"usage":{"prompt_tokens":100,"completion_tokens":6,"total_tokens":106,"prompt_tokens_details":{"cached_tokens":90}}`)), "hello", [2]int64{100, 6}, ""},
	"chat with uncounted thoughts": {"openai", events(chatEvent(`{"content":"hello"}`, `"stop"`, `,"usage":{"prompt_tokens":10,"completion_tokens":6,"total_tokens":316,"completion_tokens_details":{"reasoning_tokens":300}}`)), "hello", [2]int64{10, 306}, ""},
	"chat with parts":              {"openai", events(chatEvent(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]}`, `null`, ``), chatEvent(`{"content":[{"type":"text","text":"hel"},{"type":"reference","reference_ids":[1]},{"type":"text","text":"lo"}]}`, `null`, ``), chatEvent(`{"content":""}`, `"stop"`, ``), `[DONE]`), "hello", [2]int64{}, ""},
	"chat with a refusal":          {"openai", events(chatEvent(`{"content":null,"refusal":"I will not."}`, `null`, ``), chatEvent(`{}`, `"stop"`, ``), `[DONE]`), "I will not.", [2]int64{}, ""},
	"chat with comments":           {"openai", ": PROCESSING\n\n: PROCESSING\n\n" + events(chatEvent(`{"content":"hello"}`, `"stop"`, `,"error":null`), `[DONE]`), "hello", [2]int64{}, ""},
	"chat with another reason":     {"openai", events(chatEvent(`{"content":"hello"}`, `"content_filter"`, ``), `[DONE]`), "hello", [2]int64{}, ""},
	"messages with citations": {"anthropic", messageStart +
		event("content_block_start", `,"index":0,"content_block":{"type":"text","text":"","citations":[]}`) +
		event("content_block_delta", `,"index":0,"delta":{"type":"citations_delta","citation":{"type":"web_search_result_location","cited_text":"x"}}`) +
		event("content_block_delta", `,"index":0,"delta":{"type":"text_delta","text":"hello"}`) + event("content_block_stop", `,"index":0`) +
		messageEnd(`{"output_tokens":30}`), "hello", [2]int64{24, 30}, ""},
	"messages with a tool of the server": {"anthropic", messageStart +
		event("content_block_start", `,"index":0,"content_block":{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}`) +
		event("content_block_delta", `,"index":0,"delta":{"type":"input_json_delta","partial_json":"{\"query\":\"x\"}"}`) + event("content_block_stop", `,"index":0`) +
		event("content_block_start", `,"index":1,"content_block":{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[]}`) + event("content_block_stop", `,"index":1`) +
		strings.ReplaceAll(hello, `"index":0`, `"index":2`) + messageEnd(`{"output_tokens":30}`), "hello", [2]int64{24, 30}, ""},
	"messages with a compaction": {
		"anthropic", messageStart +
			event("content_block_start", `,"index":0,"content_block":{"type":"compaction","content":null}`) +
			event("content_block_delta", `,"index":0,"delta":{"type":"compaction_delta","content":"A summary."}`) + event("content_block_stop", `,"index":0`) +
			strings.ReplaceAll(hello, `"index":0`, `"index":1`) +
			messageEnd(`{"input_tokens":12,"output_tokens":30,"iterations":[{"type":"compaction","input_tokens":6000,"output_tokens":500},{"type":"message","input_tokens":12,"output_tokens":30}]}`),
		"hello",
		[2]int64{6012, 530},
		"",
	},
	"messages with text at the start of a block": {"anthropic", messageStart + event("content_block_start", `,"index":0,"content_block":{"type":"text","text":"hello"}`) +
		event("content_block_stop", `,"index":0`) + messageEnd(`{"output_tokens":30}`), "hello", [2]int64{24, 30}, ""},
	"messages without names of events": {"anthropic", strings.NewReplacer("event: message_start\n", "", "event: content_block_delta\n", "", "event: message_stop\n", "").Replace(messageStart + hello + messageEnd(`{"output_tokens":30}`)), "hello", [2]int64{24, 30}, ""},
	"messages cut off":                 {"anthropic", messageStart + hello + event("message_delta", `,"delta":{"stop_reason":"max_tokens"},"usage":{"output_tokens":30}`) + event("message_stop", ""), "hello", [2]int64{24, 30}, "cut off at the limit of tokens"},
	"messages with an unknown event":   {"anthropic", messageStart + event("something_new", `,"delta":{"x":1}`) + hello + messageEnd(`{"output_tokens":30}`), "hello", [2]int64{24, 30}, ""},
	"responses cut off": {
		"responses", event("response.created", `,"response":{"id":"r","error":null,"usage":null}`) + event("response.output_text.delta", `,"item_id":"m","delta":"hello"`) +
			event("response.incomplete", `,"response":{"id":"r","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"usage":{"input_tokens":30,"output_tokens":4,"total_tokens":34,"input_tokens_details":{"cached_tokens":10}}}`),
		"hello",
		[2]int64{30, 4},
		"cut off at the limit of tokens",
	},
	"responses with a refusal": {"responses", event("response.refusal.delta", `,"item_id":"m","delta":"I will not."`) +
		event("response.completed", `,"response":{"id":"r","output":[],"usage":{"input_tokens":30,"output_tokens":4,"total_tokens":34}}`), "I will not.", [2]int64{30, 4}, ""},
	"gemini with thoughts": {
		"gemini", events(
			`{"candidates":[{"content":{"parts":[{"text":"hm","thought":true}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":9,"totalTokenCount":109,"thoughtsTokenCount":100}}`,
			`{"candidates":[{"content":{"parts":[{"text":"hello"}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":3,"totalTokenCount":112,"thoughtsTokenCount":100}}`,
			`{"candidates":[{"content":{"parts":[{"text":"","thoughtSignature":"eA=="}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":5,"totalTokenCount":214,"thoughtsTokenCount":200}}`),
		"hello",
		[2]int64{9, 205},
		"",
	},
	"gemini with cached tokens": {
		"gemini", events(
			`{"candidates":[{"content":{"parts":[{"text":"hello"}],"role":"model"},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":1000,"cachedContentTokenCount":900,"toolUsePromptTokenCount":7,"candidatesTokenCount":5,"totalTokenCount":1012}}`),
		"hello",
		[2]int64{1007, 5},
		"",
	},
	"gemini cut off": {
		"gemini", events(
			`{"candidates":[{"content":{"parts":[{"text":"hello"}],"role":"model"},"finishReason":"MAX_TOKENS"}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":5}}`),
		"hello",
		[2]int64{9, 5},
		"cut off at the limit of tokens",
	},
}

// TestModelStreams checks the text and the usage of streams of all APIs, and that the model is asked for each stream only
// once.
func TestModelStreams(t *testing.T) {
	t.Parallel()
	for name, c := range modelStreams {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			all, o := newFixtureWithModel(t, c.api, func(w http.ResponseWriter, _ *http.Request) {
				asked.Add(1)
				writeStream(w, c.stream)
			}).runTask("hi")
			require.Equal(t, fleet.TaskCompleted, o.Status, o.Reason)
			require.Equal(t, c.text, o.Summary)
			require.Equal(t, c.usage, [2]int64{o.Usage.InputTokens, o.Usage.OutputTokens})
			require.Equal(t, int32(1), asked.Load())
			var warnings string
			for _, out := range all {
				if strings.HasPrefix(out.Text, "warning: ") {
					warnings += out.Text
				}
			}
			require.Equal(t, c.warning != "", warnings != "", warnings)
			require.Contains(t, warnings, c.warning)
		})
	}
}

// TestModelCalls checks that tool calls in any form are executed before the model is asked again.
func TestModelCalls(t *testing.T) {
	t.Parallel()
	end := map[string]string{
		"openai": events(chatEvent(`{"content":"done"}`, `"stop"`, ``), `[DONE]`), "anthropic": messageStart + strings.ReplaceAll(hello, "hello", "done") + messageEnd(`{"output_tokens":3}`),
		"gemini": events(`{"candidates":[{"content":{"parts":[{"text":"done"}],"role":"model"},"finishReason":"STOP"}]}`),
	}
	for name, c := range map[string]struct {
		api, stream string
		calls       int
	}{
		"chat that stops": {"openai", events(chatEvent(`{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"think","arguments":"{\"thought\":\"x\"}"}}]}`, `null`, ``), chatEvent(`{}`, `"stop"`, `,"usage":{"prompt_tokens":1,"completion_tokens":1}`), `[DONE]`), 1},
		"chat without ids": {"openai", events(chatEvent(`{"tool_calls":[{"index":0,"type":"function","function":{"name":"think","arguments":"{\"thought\":\"x\"}"}}]}`, `null`, ``),
			chatEvent(`{"tool_calls":[{"index":1,"type":"function","function":{"name":"think","arguments":""}}]}`, `null`, ``),
			chatEvent(`{"tool_calls":[{"index":1,"function":{"arguments":"{\"thought\":\"y\"}"}}]}`, `"tool_calls"`, ``), `[DONE]`), 2},
		"messages with the input at the start": {"anthropic", messageStart + event("content_block_start", `,"index":0,"content_block":{"type":"tool_use","id":"t","name":"think","input":{"thought":"x"}}`) +
			event("content_block_stop", `,"index":0`) + event("message_delta", `,"delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":3}`) + event("message_stop", ""), 1},
		"gemini with text after the call": {"gemini", events(`{"candidates":[{"content":{"parts":[{"functionCall":{"name":"think","args":{"thought":"x"}}}],"role":"model"}}]}`,
			`{"candidates":[{"content":{"parts":[{"text":"and"}],"role":"model"},"finishReason":"STOP"}]}`), 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			_, o := newFixtureWithModel(t, c.api, func(w http.ResponseWriter, _ *http.Request) {
				if asked.Add(1) == 1 {
					writeStream(w, c.stream)
					return
				}
				writeStream(w, end[c.api])
			}).runTask("hi")
			require.Equal(t, "done", o.Summary, o.Reason)
			require.Equal(t, c.calls, o.Usage.ToolCalls)
			require.Equal(t, int32(2), asked.Load())
		})
	}
}

// TestModelErrorsInStreams checks that an error in the middle of a stream fails the task with the text of the error.
func TestModelErrorsInStreams(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ api, stream string }{
		"chat":                {"openai", events(chatEvent(`{"content":"hel"}`, `null`, ``), `{"error":{"message":"on fire","type":"server_error"}}`)},
		"messages":            {"anthropic", messageStart + event("error", `,"error":{"type":"overloaded_error","message":"on fire"}`)},
		"responses":           {"responses", event("response.output_text.delta", `,"item_id":"m","delta":"hel"`) + event("error", `,"code":"x","message":"on fire"`)},
		"responses that fail": {"responses", event("response.failed", `,"response":{"status":"failed","error":{"code":"server_error","message":"on fire"}}`)},
		"gemini":              {"gemini", "{\n  \"error\": {\n    \"code\": 503, \"message\": \"on fire\"\n  }\n}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, o := newFixtureWithModel(t, c.api, func(w http.ResponseWriter, _ *http.Request) { writeStream(w, c.stream) }).runTask("hi")
			requireFailed(t, o, "reported an error in its answer: on fire")
		})
	}
}

// TestModelStreamStaysOpen checks that an answer ends with its last event, even if the connection stays open.
func TestModelStreamStaysOpen(t *testing.T) {
	t.Parallel()
	_, o := newFixtureWithModel(t, "anthropic", func(w http.ResponseWriter, r *http.Request) {
		writeStream(w, messageStart+hello+messageEnd(`{"output_tokens":3}`))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}).runTask("hi")
	require.Equal(t, "hello", o.Summary, o.Reason)
}
