package shim

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestOutputLimit holds that an output is whole, or has its beginning and its end and says what is missing.
func TestOutputLimit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(0, 400).Draw(t, "limit")
		lines := rapid.SliceOf(rapid.StringMatching(`[a-z]{0,9}\n`)).Draw(t, "lines")
		var file bytes.Buffer
		grown := 0
		o := newOutput(&file, limit, func() { grown++ })
		all := ""
		for _, l := range lines {
			n, err := o.Write([]byte(l))
			require.NoError(t, err)
			require.Equal(t, len(l), n)
			all += l
		}
		o.Close()
		got := file.String()
		if o.dropped == 0 {
			require.Equal(t, all, got)
			require.LessOrEqual(t, int64(len(all)), limit)
			return
		}
		require.Greater(t, int64(len(all)), limit)
		head, rest, ok := strings.Cut(got, "\n[fleet: the output is longer than its limit; what follows is left out, all but its end]\n")
		require.True(t, ok)
		note, tail, ok := strings.Cut(rest, "\n")
		require.True(t, ok)
		require.Contains(t, note, "bytes were left out here")
		require.True(t, strings.HasPrefix(all, head))
		require.True(t, strings.HasSuffix(all, tail))
		require.Equal(t, int64(len(all)), int64(len(head)+len(tail))+o.dropped)
		require.LessOrEqual(t, int64(len(head)+len(tail)), limit)
		require.Positive(t, grown)
	})
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestOutputToFullDisk(t *testing.T) {
	t.Parallel()
	o := newOutput(fullDisk{}, 100, func() { t.Error("nothing has grown") })
	for range 100 {
		n, err := o.Write([]byte("line\n"))
		require.NoError(t, err, "the child is drained all the same")
		require.Equal(t, 5, n)
	}
	o.Close()
	require.ErrorContains(t, o.err, "no space left")
}
