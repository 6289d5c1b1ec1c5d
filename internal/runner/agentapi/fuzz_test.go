package agentapi

import (
	"bufio"
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"
)

// FuzzScreen checks that any screen can be read, and that the output has no characters that control a terminal.
func FuzzScreen(f *testing.F) {
	f.Add("● Bash(ls)\n\x1b[31mred\x1b[0m\n", "done", true)
	f.Add(strings.Repeat("x", 79)+" \n"+strings.Repeat("y", 80)+"\n✻ Cogitated for 34s\n", "\xff\xfe", false)
	f.Fuzz(func(t *testing.T, first, second string, final bool) {
		r := newScreenReader(position{})
		at := time.Unix(0, 0)
		messages := []message{{ID: 1, Role: "agent", Content: first}}
		for _, content := range []string{first, first + "\n" + second, second} {
			messages[0].Content = content
			at = at.Add(time.Minute)
			for _, o := range r.newText(message{ID: 0}, messages, final, at) {
				require.Equal(t, -1, strings.IndexFunc(o.Text, func(c rune) bool { return unicode.IsControl(c) && c != '\n' && c != '\t' }))
				again, err := parsePosition(o.Cursor)
				require.NoError(t, err)
				require.Equal(t, o.Cursor, again.String())
			}
		}
	})
}

// FuzzPosition checks that an accepted cursor does not change when it is written and parsed again.
func FuzzPosition(f *testing.F) {
	f.Add("1.2.3.abc.def.4")
	f.Add("-1.2.3...4")
	f.Add("1.2.3.4")
	f.Fuzz(func(t *testing.T, cursor string) {
		p, err := parsePosition(cursor)
		if err != nil {
			return
		}
		again, err := parsePosition(p.String())
		require.NoError(t, err)
		require.Equal(t, p, again)
	})
}

// FuzzEvents checks that any stream of events can be read to its end.
func FuzzEvents(f *testing.F) {
	f.Add([]byte("event: message_update\ndata: {\"id\":1,\"role\":\"agent\",\"message\":\"hi\"}\n\nevent: status_change\r\ndata: {\"status\":\"stable\"}\r\n\r\n"))
	f.Add([]byte("data:\ndata: {\n\n: comment\nevent:message_update\ndata: 1\n\n"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		v, r := &view{}, bufio.NewReader(bytes.NewReader(stream))
		for {
			name, data, err := ReadEvent(r)
			if err != nil {
				return
			}
			_ = v.apply(name, data)
		}
	})
}

// endlessEvent is a stream with one event that never ends.
type endlessEvent struct{}

func (endlessEvent) Read(p []byte) (int, error) {
	const line = "data: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n"
	n := 0
	for n+len(line) <= len(p) {
		n += copy(p[n:], line)
	}
	return n, nil
}

// TestEndlessEvent checks that an event of many lines does not fill the memory.
func TestEndlessEvent(t *testing.T) {
	t.Parallel()
	_, _, err := ReadEvent(bufio.NewReader(endlessEvent{}))
	require.ErrorContains(t, err, "too long")
}
