package agentapi

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"fleet/internal/fleet"
)

// pad returns the lines as a screen of 80 columns shows them: padded with spaces.
func pad(lines ...string) string {
	for i, line := range lines {
		lines[i] = line + strings.Repeat(" ", max(0, 80-len([]rune(line))))
	}
	return strings.Join(lines, "\n")
}

func TestScreenLines(t *testing.T) {
	long := strings.Repeat("0123456789", 20)
	for name, c := range map[string]struct {
		screen string
		want   []string
	}{
		"nothing":            {"", nil},
		"padding":            {pad("hello", "", "world"), []string{"hello", "", "world"}},
		"blank ends":         {pad("", "hello", ""), []string{"hello"}},
		"a broken line":      {pad(long[:80], long[80:160], long[160:], "next"), []string{long, "next"}},
		"broken at the end":  {pad(long[:80], "", "next"), []string{long[:80], "", "next"}},
		"not a screen":       {long + "\nnext", []string{long, "next"}},
		"wide characters":    {strings.Repeat("漢", 40) + "\n" + "字" + strings.Repeat(" ", 78), []string{strings.Repeat("漢", 40) + "字"}},
		"control characters": {"a\x1bb\x07\r\nc", []string{"ab", "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, append([]string(nil), screenLines(c.screen)...))
		})
	}
}

func TestLastText(t *testing.T) {
	claude := []string{
		"● I look at the code first.", "", "● Bash(ls)", "  ⎿  main.go", "     go.mod", "",
		"● All is well:", "", "  - it builds", "  - it runs", "", "✻ Cooked for 3s · done 1:44 AM",
	}
	require.Equal(t, "All is well:\n\n- it builds\n- it runs", lastText(finalLines(claude)))
	require.Equal(t, "one\ntwo", lastText([]string{"one", "two"}))
	require.Empty(t, lastText(nil))
}

func TestProgress(t *testing.T) {
	for line, want := range map[string]string{
		"* working 3/30": "working 3/30",
		"✻ Cooking… (12s · ↑ 1.2k tokens · esc to interrupt)": "Cooking… (12s · ↑ 1.2k tokens · esc to interrupt)",
		"⠋ Thinking...": "Thinking...",
	} {
		require.True(t, isProgress(line), line)
		text, key := progressText(line)
		require.Equal(t, want, text)
		require.NotEmpty(t, key)
	}
	for _, line := range []string{"It works.", "* a point", "1/2 done", "..."} {
		require.False(t, isProgress(line), line)
	}
}

func TestShowsInterrupt(t *testing.T) {
	for _, last := range []string{
		"Interrupted", "  ⎿  Interrupted by user", "⎿ Interrupted · What should Claude do instead?", "■ Conversation interrupted",
		"[Request interrupted by user for tool use]", "■ Conversation interrupted - tell the model what to do differently.",
	} {
		require.True(t, showsInterrupt([]string{"said before", last}), last)
	}
	for _, last := range []string{
		"- Interrupted downloads are now resumed.", "Interrupted downloads are now resumed.", "  ⎿  Interrupted downloads: 0",
		"* Interrupted", "Interrupted by users who press Escape.", "Turn interrupted off.",
	} {
		require.False(t, showsInterrupt([]string{"said before", last}), last)
	}
	require.False(t, showsInterrupt([]string{"The handler of interrupted calls is done."}))
	require.False(t, showsInterrupt([]string{"Interrupted", "a", "b", "c"}))
}

// joinText returns the text of the outputs that are not steps.
func joinText(outputs []fleet.Output) string {
	var s strings.Builder
	for _, out := range outputs {
		if !out.IsStep {
			s.WriteString(out.Text)
		}
	}
	return s.String()
}

// TestScreenReaderOfGrowingScreen checks that the text is complete and not repeated, however often the screen is read
// and wherever reading continues.
func TestScreenReaderOfGrowingScreen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(rapid.SampledFrom([]string{"alpha", "beta", "", "● Bash(ls)", "  ⎿  file", "}", "gamma delta"}), 1, 30).Draw(t, "lines")
		now := time.Unix(1000, 0)
		s := newScreenReader(position{})
		var outputs []fleet.Output
		for n := 0; n < len(lines); {
			n = min(len(lines), n+rapid.IntRange(0, 4).Draw(t, "more"))
			screen := append(append([]string{}, lines[:n]...), "", "✻ Cooking… ("+now.String()+" · esc to interrupt)")
			outputs = append(outputs, s.newText(message{ID: 1}, []message{{ID: 2, Content: pad(screen...)}}, false, now)...)
			now = now.Add(time.Duration(rapid.IntRange(10, 2000).Draw(t, "wait")) * time.Millisecond)
			if n < len(lines) && rapid.IntRange(0, 5).Draw(t, "crash") == 0 && len(outputs) > 0 {
				p, err := parsePosition(outputs[len(outputs)-1].Cursor)
				require.NoError(t, err)
				s = newScreenReader(p)
			}
		}
		outputs = append(outputs, s.newText(message{ID: 1}, []message{{ID: 2, Content: pad(lines...)}}, true, now)...)
		all := strings.Join(trimBlank(append([]string{}, lines...)), "\n")
		var text strings.Builder
		for _, out := range outputs {
			if !strings.Contains(out.Text, "Cooking") {
				text.WriteString(out.Text)
			}
		}
		require.Equal(t, strings.Fields(all), strings.Fields(text.String()))
	})
}

func TestScreenReaderOfRedrawnScreen(t *testing.T) {
	s := newScreenReader(position{})
	now := time.Unix(1000, 0)
	// readScreen reads the screen a second later, and returns the new text.
	readScreen := func(final bool, lines ...string) string {
		now = now.Add(time.Second)
		return joinText(s.newText(message{ID: 1}, []message{{ID: 2, Content: pad(lines...)}}, final, now))
	}
	readScreen(false, "one", "two", "three", "")
	require.Equal(t, "one\ntwo\n", readScreen(false, "one", "two", "three", ""))
	require.Empty(t, readScreen(false, "two", "three", "four", "five")) // the screen scrolls, and changes too fast
	require.Equal(t, "three\nfour\n", readScreen(false, "two", "three", "four", "five"))
	require.Equal(t, "five\n", readScreen(true, "two", "three", "four", "five"))
	require.Empty(t, readScreen(true, "two", "three", "four", "five"))
	next := s.newText(message{ID: 1}, []message{{ID: 2}, {ID: 3, Role: roleUser}, {ID: 4, Content: pad("two", "again")}}, true, now)
	require.Equal(t, "two\nagain\n", joinText(next), "a new message must be passed on, even if it repeats text")
}

func TestPosition(t *testing.T) {
	p := position{runMessage: 3, message: 4, lines: 12, lastLineHash: hashOf("x"), stepHash: hashOf("y"), seq: 7}
	got, err := parsePosition(p.String())
	require.NoError(t, err)
	require.Equal(t, p, got)
	for _, bad := range []string{"x", "1.2.3", "-1.0.0...1", "a.0.0...1"} {
		_, err := parsePosition(bad)
		require.Equal(t, fleet.ReasonInvalidArgument, fleet.ReasonOf(err), bad)
	}
}

func TestTypeableText(t *testing.T) {
	require.Equal(t, "a\nb\tc", typeableText("\n a\r\nb\tc\x1b\x00 \n"))
	require.Equal(t, "[201~rm -rf", typeableText("\x1b[201~rm -rf"), "the text must not contain the sequence that ends a paste")
	require.Empty(t, typeableText(" \x1b "))
}
