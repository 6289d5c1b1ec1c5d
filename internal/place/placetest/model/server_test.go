package model_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/place/placetest/model"
)

// paths are the URL paths of the APIs.
var paths = map[string]string{model.Anthropic: "/v1/messages", model.OpenAI: "/v1/chat/completions"}

func ask(ctx context.Context, t *testing.T, s *model.Server, api string, body map[string]any) (int, string) {
	t.Helper()
	b, err := json.Marshal(body)
	require.NoError(t, err)
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+paths[api], bytes.NewReader(b))
	require.NoError(t, err)
	q.Header.Set("X-Api-Key", "sk-test")
	r, err := http.DefaultClient.Do(q)
	require.NoError(t, err)
	defer func() { _ = r.Body.Close() }()
	all, err := io.ReadAll(r.Body)
	if err != nil {
		return r.StatusCode, "broken: " + err.Error()
	}
	return r.StatusCode, string(all)
}

func user(text string) map[string]any { return map[string]any{"role": "user", "content": text} }

func TestAnswers(t *testing.T) {
	tests := []struct {
		name, prompt string
		status       int
		want         []string
	}{
		{"echo", "Hello there", 200, []string{"You said: Hello there"}},
		{"say", "Do it.\nmodel: say All done", 200, []string{"All done"}},
		{"more than one line", `model: say "one\ntwo"`, 200, []string{`one\ntwo`}},
		{"tool", `model: tool look {"where":"here"}`, 200, []string{"Now look", `"look"`, `where`, "tool_"}},
		{"tools", `model: tools [{"name":"a","input":{}},{"name":"b","input":{"x":1}}]`, 200, []string{`"a"`, `"b"`}},
		{"refuse", "model: refuse 429 slow down", 429, []string{"slow down", "rate_limit_error"}},
		{"think", `model: think "Hm." tool look {}`, 200, []string{`"look"`}},
		{"cut", "model: cut half", 200, []string{"broken"}},
		{"no such verb", "model: sing", 400, []string{"there is no sing"}},
	}
	for api := range paths {
		for _, stream := range []bool{false, true} {
			for _, tt := range tests {
				t.Run(api+" "+tt.name, func(t *testing.T) {
					if tt.name == "cut" && !stream {
						t.Skip("without a stream, nothing is sent before the end of the answer")
					}
					s := model.New(t)
					status, body := ask(t.Context(), t, s, api, map[string]any{"model": "m", "stream": stream, "messages": []any{user(tt.prompt)}})
					require.Equal(t, tt.status, status, body)
					for _, want := range tt.want {
						require.Contains(t, body, want)
					}
					require.Len(t, s.Asked(tt.prompt), 1)
					q := s.Requests()[0]
					require.Equal(t, []any{api, "m", stream, "sk-test", tt.prompt}, []any{q.API, q.Model, q.Stream, q.Key(), q.Messages[0].Text})
				})
			}
		}
	}
}

func TestConversation(t *testing.T) {
	s := model.New(t)
	prompt := "model: tool look {}\nmodel: tool use {\"id\":\"${found.id}\"}"
	openai := []any{
		map[string]any{"role": "system", "content": "Be brief."},
		user(prompt),
		map[string]any{"role": "assistant", "tool_calls": []any{map[string]any{"id": "1", "type": "function", "function": map[string]any{"name": "look", "arguments": "{}"}}}},
		map[string]any{"role": "tool", "tool_call_id": "1", "content": `{"found":{"id":"x7"}}`},
	}
	_, body := ask(t.Context(), t, s, model.OpenAI, map[string]any{"model": "m", "messages": openai})
	require.Contains(t, body, "x7")
	require.Equal(t, "Be brief.", s.Requests()[0].System)

	anthropic := []any{
		user(prompt),
		map[string]any{"role": "assistant", "content": []any{map[string]any{"type": "tool_use", "id": "1", "name": "look", "input": map[string]any{}}}},
		map[string]any{"role": "user", "content": []any{map[string]any{"type": "tool_result", "tool_use_id": "1", "content": `{"found":{"id":"x8"}}`}}},
	}
	_, body = ask(t.Context(), t, s, model.Anthropic, map[string]any{"model": "m", "messages": anthropic})
	require.Contains(t, body, "x8")
	require.Len(t, s.Requests()[1].Results(), 1)

	status, body := ask(t.Context(), t, s, model.Anthropic, map[string]any{"model": "m", "messages": anthropic[:2]})
	require.Equal(t, http.StatusBadRequest, status, body)
	require.Contains(t, body, "there is no result")
}

// TestReminder checks that a text that Claude Code adds to a message does not count as the prompt.
func TestReminder(t *testing.T) {
	s := model.New(t)
	parts := []any{map[string]any{"type": "text", "text": "<system-reminder>\nBe kind.\n</system-reminder>\n"}, map[string]any{"type": "text", "text": "Greet.\nmodel: say Hello"}}
	_, body := ask(t.Context(), t, s, model.Anthropic, map[string]any{"model": "m", "messages": []any{map[string]any{"role": "user", "content": parts}}})
	require.Contains(t, body, "Hello")
	require.Len(t, s.Asked("Greet."), 1)
	require.Empty(t, s.Asked("Be kind."))
}

// TestLater checks that only the first request with a conversation is answered with an error.
func TestLater(t *testing.T) {
	s := model.New(t)
	for api := range paths {
		body := map[string]any{"model": api, "messages": []any{user("Ask " + api + ".\nmodel: later 529 say Done")}}
		status, _ := ask(t.Context(), t, s, api, body)
		require.Equal(t, 529, status)
		status, text := ask(t.Context(), t, s, api, body)
		require.Equal(t, http.StatusOK, status)
		require.Contains(t, text, "Done")
	}
}

func TestKey(t *testing.T) {
	s := model.New(t)
	s.RequireKey("sk-right")
	for api := range paths {
		status, _ := ask(t.Context(), t, s, api, map[string]any{"model": "m", "messages": []any{user("hi")}})
		require.Equal(t, http.StatusUnauthorized, status)
	}
}

func TestGates(t *testing.T) {
	for api := range paths {
		t.Run(api, func(t *testing.T) {
			s := model.New(t)
			done := make(chan string, 2)
			for _, prompt := range []string{"model: hang half-way", "model: forever on and on"} {
				go func() {
					_, body := ask(context.WithoutCancel(t.Context()), t, s, api, map[string]any{"model": "m", "stream": true, "messages": []any{user(prompt)}})
					done <- body
				}()
			}
			<-s.Gate("half-way").Arrived()
			<-s.Gate("forever").Arrived()
			s.Gate("half-way").Open()
			require.Contains(t, <-done, "Went on")
			s.Gate("forever").Open()
			body := <-done
			require.Contains(t, body, "on and on")
			require.Contains(t, body, `_tokens":500`) // the usage comes last, so the answer is complete

			ctx, cancel := context.WithCancel(t.Context())
			q, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+paths[api], strings.NewReader(`{"messages":[{"role":"user","content":"model: hang nobody"}]}`))
			require.NoError(t, err)
			go func() {
				<-s.Gate("nobody").Arrived()
				cancel()
			}()
			r, err := http.DefaultClient.Do(q)
			if err == nil {
				_ = r.Body.Close()
			}
			require.ErrorIs(t, err, context.Canceled)
			<-s.Gate("nobody").Left()
		})
	}
}
