package driver

import (
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// FuzzCodex checks that the parser accepts any line in the output of Codex.
func FuzzCodex(f *testing.F) {
	f.Add([]byte(`{"type":"item.completed","item":{"id":"i","type":"command_execution","command":"bash -lc ls","aggregated_output":"a","exit_code":0}}` + "\n"))
	f.Add([]byte(`{"type":"thread.started","thread_id":"t"}` + "\n" + `{"type":"turn.failed","error":{"message":"no"}}`))
	f.Add([]byte(`{"type":"item.started","item":null}` + "\nnot JSON"))
	f.Fuzz(func(t *testing.T, data []byte) { requireParsed(t, Format{Kind: "codex", Session: "x"}, data) })
}

// FuzzACP checks that the parser accepts any line in the output of the client of package acp.
func FuzzACP(f *testing.F) {
	f.Add([]byte(`{"type":"update","update":{"sessionUpdate":"tool_call","toolCallId":"t","title":1,"rawInput":[1],"status":"completed"}}`))
	f.Add([]byte(`{"type":"permission","id":"t"}`))
	f.Add([]byte(`{"type":"session","session":"s","text":"\u0000"}`))
	f.Fuzz(func(t *testing.T, data []byte) { requireParsed(t, Format{Kind: "acp", Session: "x y z"}, data) })
}

// FuzzClaude checks that the parser accepts any line in the output of Claude Code.
func FuzzClaude(f *testing.F) {
	f.Add([]byte(`{"type":"assistant","message":{"content":[{"type":"tool_use","name":"Bash","input":{"command":1}}]}}`))
	f.Add([]byte(`{"type":"assistant","message":{"content":"text"}}`))
	f.Add([]byte(`{"type":"result","result":{"a":1}}`))
	f.Fuzz(func(t *testing.T, data []byte) { requireParsed(t, Format{Kind: "claude", Session: "x"}, data) })
}

// FuzzLines checks that the output of any program can be parsed as text, as JSON lines and as lines of the type OutputLine.
func FuzzLines(f *testing.F) {
	f.Add([]byte("half a line \xe2\x82"))
	f.Add([]byte(`{"a":"b"}` + "\n" + `{"a":{"b":[1]}}`))
	f.Add([]byte(`{"text":"a","open":1}` + "\n" + `{"outcome":{"Status":"failed","Reason":"no","Summary":"s"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		requireParsed(t, Format{Kind: "text"}, data)
		requireParsed(t, Format{Kind: "jsonl", Fields: Fields{Text: "a"}}, data)
		requireParsed(t, Format{Kind: "model"}, data)
	})
}

// requireParsed parses the output in small parts, and fails the test unless the texts are valid UTF-8 and there is a result.
func requireParsed(t *testing.T, format Format, data []byte) {
	t.Helper()
	pieces, r := parseInParts(t, format, data, func() int { return 7 })
	require.True(t, utf8.ValidString(piecesText(pieces)+r.Outcome.Summary+r.Outcome.Reason+string(r.Outcome.Payload)))
	require.NotEmpty(t, r.Outcome.Status)
}
