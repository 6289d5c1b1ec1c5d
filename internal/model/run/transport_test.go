//go:build cgo

package run_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/placetest/model"
)

// event returns an event of a stream of the Messages API or the Responses API. rest has the fields after the type.
func event(kind, rest string) string {
	return fmt.Sprintf("event: %s\ndata: {\"type\":%q%s}\n\n", kind, kind, rest)
}

// messageStart starts an answer with 12 input tokens, 7 tokens read from the cache, 5 tokens written to it, and 1
// output token so far.
var messageStart = event("message_start", `,"message":{"id":"m","type":"message","role":"assistant","model":"stub-large","content":[],"stop_reason":null,`+
	`"usage":{"input_tokens":12,"cache_read_input_tokens":7,"cache_creation_input_tokens":5,"output_tokens":1}}`)

// hello is a content block with the text hello.
var hello = event("content_block_start", `,"index":0,"content_block":{"type":"text","text":""}`) +
	event("content_block_delta", `,"index":0,"delta":{"type":"text_delta","text":"hello"}`) + event("content_block_stop", `,"index":0`)

// messageEnd ends an answer with the usage.
func messageEnd(usage string) string {
	return event("message_delta", `,"delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":`+usage) + event("message_stop", "")
}

// writeStream answers with the text as a stream of events.
func writeStream(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = fmt.Fprint(w, text)
}

// documents are definitions that use a model at a URL, by the API of the model.
var documents = map[string]string{
	"anthropic": "models: {stub: {provider: anthropic, model: stub-large, base_url: %q}}\nagents: {root: {model: stub, toolsets: [{type: think}]}}",
	"openai": "providers: {p: {api_type: openai_chatcompletions, base_url: %q, token_key: OPENAI_API_KEY}}\n" +
		"models: {stub: {provider: p, model: stub-large, provider_opts: {request: {set: {effort: {level: low}}, drop: [stream_options, none]}}}}\n" +
		"agents: {root: {model: stub, toolsets: [{type: think}]}}",
	"responses": "providers: {p: {api_type: openai_responses, base_url: %q, token_key: OPENAI_API_KEY}}\n" +
		"models: {stub: {provider: p, model: stub-large}}\nagents: {root: {model: stub, toolsets: [{type: think}]}}",
	"gemini": "models: {stub: {provider: google, model: stub-large, base_url: %q}}\nagents: {root: {model: stub, toolsets: [{type: think}]}}",
}

// newFixtureWithModel returns a fixture whose model is the handler. api is a key of documents.
func newFixtureWithModel(t *testing.T, api string, h http.HandlerFunc) *fixture {
	t.Helper()
	return newFixture(t, fleet.AgentConfig{Document: fmt.Sprintf(documents[api], model.Serve(t, h).URL)}, nil)
}

// TestModelUsage checks the usage of answers whose last event repeats, changes or lacks figures of the first event.
func TestModelUsage(t *testing.T) {
	t.Parallel()
	for usage, want := range map[string][2]int64{
		`{"output_tokens":30}`:                                                       {24, 30},
		`{"input_tokens":12,"output_tokens":30}`:                                     {24, 30},
		`{"input_tokens":0,"output_tokens":30}`:                                      {24, 30},
		`{"input_tokens":20,"cache_read_input_tokens":9,"output_tokens":30}`:         {34, 30},
		`{"input_tokens":null,"cache_creation_input_tokens":null,"output_tokens":2}`: {24, 2},
		`{"output_tokens":0}`:                                                        {24, 1},
	} {
		d := newFixtureWithModel(t, "anthropic", func(w http.ResponseWriter, _ *http.Request) { writeStream(w, messageStart+hello+messageEnd(usage)) })
		_, o := d.runTask("hi")
		require.Equal(t, fleet.TaskCompleted, o.Status, o.Reason)
		require.Equal(t, want, [2]int64{o.Usage.InputTokens, o.Usage.OutputTokens}, usage)
	}
}

// TestModelErrors checks that each failure of a model's API leads to a precise error.
func TestModelErrors(t *testing.T) {
	t.Parallel()
	var followed atomic.Int32 // requests to the target of the redirects
	other := model.Serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed.Add(1) }))
	for name, c := range map[string]struct {
		api    string
		answer http.HandlerFunc
		says   string
	}{
		"a redirect": {"anthropic", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL+"/v1/messages", http.StatusTemporaryRedirect)
		}, "redirects to " + strings.TrimPrefix(other.URL, "http://") + " (HTTP 307), which is not followed"},
		"a redirect of chat": {"openai", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL+"/chat/completions", http.StatusPermanentRedirect)
		}, "(HTTP 308), which is not followed"},
		"a page": {"anthropic", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = fmt.Fprint(w, "<html>Log in</html>")
		}, "answered with a web page (HTTP 200)"},
		"a page of chat": {"openai", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprint(w, "<html>Log in</html>") // Go detects the content type
		}, "answered with a web page (HTTP 200)"},
		"a page for an error": {"anthropic", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(http.StatusForbidden)
			_, _ = fmt.Fprint(w, "<html>Forbidden</html>")
		}, "answered HTTP 403 with a web page"},
		"half a stream": {"anthropic", func(w http.ResponseWriter, _ *http.Request) {
			writeStream(w, messageStart+hello)
		}, "stream ended early"},
		"half a stream of chat": {"openai", func(w http.ResponseWriter, _ *http.Request) {
			writeStream(w, events(chatEvent(`{"content":"hel"}`, `null`, ``)))
		}, "stream ended early"},
		"an empty stream": {"anthropic", func(w http.ResponseWriter, _ *http.Request) { writeStream(w, "") }, "an empty stream"},
		"a reset":         {"anthropic", func(w http.ResponseWriter, _ *http.Request) { reset(w) }, "reset the connection"},
		"a reset in the middle": {"openai", func(w http.ResponseWriter, _ *http.Request) {
			writeStream(w, events(chatEvent(`{"content":"hel"}`, `null`, ``)))
			w.(http.Flusher).Flush()
			reset(w)
		}, "reset the connection in the middle of the answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, o := newFixtureWithModel(t, c.api, c.answer).runTask("hi")
			requireFailed(t, o, c.says)
			require.NotContains(t, o.Reason, "fleet-http")
		})
	}
	t.Cleanup(func() { require.Zero(t, followed.Load(), "a redirect was followed and the key was sent") })
}

// reset resets the connection, like a server that crashes.
func reset(w http.ResponseWriter) {
	c, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
}

// TestModelRequest checks that a request is modified as provider_opts.request says.
func TestModelRequest(t *testing.T) {
	t.Parallel()
	var body atomic.Value
	d := newFixtureWithModel(t, "openai", func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		body.Store(string(b))
		writeStream(w, events(chatEvent(`{"content":"hello"}`, `null`, ``), chatEvent(`{"content":""}`, `"stop"`, `,"usage":{"prompt_tokens":3,"completion_tokens":4}`), `[DONE]`))
	})
	_, o := d.runTask("hi")
	require.Equal(t, "hello", o.Summary, o.Reason)
	require.Equal(t, [2]int64{3, 4}, [2]int64{o.Usage.InputTokens, o.Usage.OutputTokens})
	sent, _ := body.Load().(string)
	require.Contains(t, sent, `"effort":{"level":"low"}`)
	require.NotContains(t, sent, "stream_options")
}
