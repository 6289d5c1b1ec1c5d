package driver

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestLastLine checks that the summary is the last line with any text, however the output is split.
func TestLastLine(t *testing.T) {
	t.Parallel()
	line := rapid.SampledFrom([]string{"", " ", "one", "two ", "\x1b[0m", "10%\r100%", "\r", "\x1b[1mbold\x1b[0m\r", strings.Repeat("x", 2*maxLastLine)})
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(line, 0, 12).Draw(t, "lines")
		want := ""
		for _, l := range all {
			if s := displayedText(l[:min(len(l), maxLastLine)]); s != "" {
				want = s
			}
		}
		size := rapid.SampledFrom([]int{1, 2, 3, 50, 5000})
		_, r := parseInParts(t, Format{Kind: "text"}, []byte(strings.Join(all, "\n")), func() int { return size.Draw(t, "size") })
		require.Equal(t, shorten(want, maxSummary), r.Outcome.Summary)
	})
}

// TestFlush checks that Flush parses an incomplete line up to its last complete character.
func TestFlush(t *testing.T) {
	t.Parallel()
	p := &textParser{}
	n, pieces := p.Parse([]byte("half a line \xe2\x82"), false)
	require.Zero(t, n)
	require.Empty(t, pieces)
	n, pieces = p.Flush([]byte("half a line \xe2\x82"))
	require.Equal(t, len("half a line "), n)
	require.Equal(t, []Piece{{Text: "half a line "}}, pieces)
	n, pieces = p.Flush([]byte("\xe2\x82"))
	require.Zero(t, n)
	require.Empty(t, pieces)
	p.Parse([]byte("\xe2\x82\xac"), true)
	require.Equal(t, "half a line €", p.Result(Exit{}).Outcome.Summary)
}
