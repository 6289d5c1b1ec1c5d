package driver

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// parseInParts parses data in parts, as a follower does, and returns the parsed pieces and the result. nextSize returns the length
// of the next part.
func parseInParts(t require.TestingT, f Format, data []byte, nextSize func() int) ([]Piece, Result) {
	pieces, p := parse(t, f, data, nextSize)
	return pieces, p.Result(Exit{})
}

// parseAll parses the whole output of a program at once.
func parseAll(t require.TestingT, f Format, output string) ([]Piece, Parser) {
	return parse(t, f, []byte(output), func() int { return max(1, len(output)) })
}

func parse(t require.TestingT, f Format, data []byte, nextSize func() int) ([]Piece, Parser) {
	p, err := NewParser(f)
	require.NoError(t, err)
	var pieces []Piece
	var unparsed []byte
	parsePart := func(final bool) {
		for {
			n, s := p.Parse(unparsed, final)
			pieces, unparsed = append(pieces, s...), unparsed[n:]
			if n == 0 || len(unparsed) == 0 {
				return
			}
		}
	}
	for len(data) > 0 {
		n := min(nextSize(), len(data))
		unparsed, data = append(unparsed, data[:n]...), data[n:]
		parsePart(false)
	}
	parsePart(true)
	require.Empty(t, unparsed)
	return pieces, p
}

// piecesText joins the texts of the pieces. It puts details into braces, and other steps into angle brackets.
func piecesText(pieces []Piece) string {
	var b strings.Builder
	for _, s := range pieces {
		switch {
		case s.Step && s.Data != nil && s.Data.Type.IsDetail():
			b.WriteString("{" + s.Text + "}")
		case s.Step:
			b.WriteString("<" + s.Text + ">")
		default:
			b.WriteString(s.Text)
		}
	}
	return b.String()
}

// TestPieces checks that the result does not depend on how the output is split.
func TestPieces(t *testing.T) {
	t.Parallel()
	line := rapid.OneOf(
		rapid.SliceOfN(rapid.Byte(), 0, 40),
		rapid.Map(rapid.String(), func(s string) []byte { return []byte(s) }),
		rapid.Just([]byte(`{"type":"assistant","message":{"content":[{"type":"text","text":"é"},{"type":"tool_use","name":"X"}]}}`)),
		rapid.Just([]byte(`{"type":"text","id":"m","text":"é"}`)),
		rapid.Just([]byte(`{"type":"update","update":{"sessionUpdate":"tool_call","toolCallId":"t","title":"x","status":"in_progress"}}`)),
		rapid.Just([]byte(`{"type":"update","update":{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"failed"}}`)),
		rapid.Just([]byte(`{"type":"item.started","item":{"id":"i","type":"command_execution","command":"ls"}}`)),
		rapid.Just([]byte(`{"type":"item.completed","item":{"id":"i","type":"agent_message","text":"é"}}`)),
		rapid.Just([]byte(`{"type":"turn","stop_reason":"end_turn"}`)),
		rapid.Just([]byte(`{"step":true,"text":"\u0000","data":{"a":"\u0000"},"open":1}`)),
		rapid.Just([]byte(`{"spent":{"Turns":1}}`)),
		rapid.Just([]byte(`{"outcome":{"Status":"completed","Summary":"é"}}`)),
		rapid.Just([]byte(`{"a":{"b":"text"},"type":"result","result":"r","session_id":"s"}`)),
	)
	formats := []Format{{Kind: "text"}, {Kind: "claude"}, {Kind: "codex"}, {Kind: "acp"}, {Kind: "model"}, {Kind: "jsonl", Fields: Fields{Text: "a.b", Summary: "result"}}}
	rapid.Check(t, func(t *rapid.T) {
		var data []byte
		for _, l := range rapid.SliceOf(line).Draw(t, "lines") {
			data = append(append(data, l...), '\n')
		}
		data = append(data, line.Draw(t, "rest")...)
		size := rapid.IntRange(1, 30)
		for _, f := range formats {
			all, one := parseInParts(t, f, data, func() int { return len(data) })
			cut, two := parseInParts(t, f, data, func() int { return size.Draw(t, "size") })
			require.Equal(t, piecesText(all), piecesText(cut))
			require.Equal(t, one, two)
			require.True(t, utf8.ValidString(piecesText(all)))
			require.NotContains(t, piecesText(all), "\x00")
		}
		text, _ := parseInParts(t, formats[0], data, func() int { return len(data) })
		require.Equal(t, CleanText(data), piecesText(text))
	})
}

// TestOpenCalls checks that a tool call is open until its result arrives.
func TestOpenCalls(t *testing.T) {
	t.Parallel()
	p := newClaudeParser(Format{})
	for _, step := range []struct {
		line string
		open int
	}{
		{`{"type":"assistant","message":{"content":[{"type":"tool_use","id":"1","name":"Bash"},{"type":"tool_use","id":"2","name":"Read"}]}}`, 2},
		{`{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"2","content":"x"}]}}`, 1},
		{`{"type":"user","message":{"content":"text"}}`, 1},
		{`{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"1","content":"x"}]}}`, 0},
	} {
		p.ParseLine([]byte(step.line))
		require.Equal(t, step.open, p.OpenCalls(), step.line)
	}
}

func TestLongLines(t *testing.T) {
	t.Parallel()
	data := []byte(`{"a":"` + strings.Repeat("x", MaxLine) + "\"}\n" + `{"a":"short"}` + "\n")
	for _, size := range []int{len(data), 1 << 20} {
		pieces, _ := parseInParts(t, Format{Kind: "jsonl", Fields: Fields{Text: "a"}}, data, func() int { return size })
		require.Equal(t, []Piece{{Text: "short\n"}}, pieces)
	}
	pieces, _ := parseInParts(t, Format{Kind: "text"}, data, func() int { return 1 << 20 })
	for _, s := range pieces {
		require.LessOrEqual(t, len(s.Text), maxChunk)
	}
	require.Equal(t, string(data), piecesText(pieces))
}

// TestLongTexts checks that a text of many pieces keeps its beginning, up to a limit.
func TestLongTexts(t *testing.T) {
	t.Parallel()
	piece := strings.Repeat("é", 50_000)
	for kind, line := range map[string]string{"jsonl": `{"a":"` + piece + `"}`, "acp": `{"type":"text","text":"` + piece + `"}`} {
		_, r := parseInParts(t, Format{Kind: kind, Fields: Fields{Text: "a", Delta: true}}, []byte(strings.Repeat(line+"\n", 12)), func() int { return 1 << 20 })
		require.Equal(t, strings.Repeat("é", maxLastText/2), string(r.Outcome.Payload), kind)
	}
}
