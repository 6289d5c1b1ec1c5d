package shim

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestOutputLimit checks that an output is complete, or has its unchanged beginning and end, and that readers and pages account
// for each of its bytes.
func TestOutputLimit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.Int64Range(0, 400).Draw(rt, "limit")
		raw := limit + rapid.Int64Range(0, 600).Draw(rt, "raw")
		writes := rapid.SliceOf(rapid.StringMatching(`[a-zé]{0,30}\n?`)).Draw(rt, "writes")
		keepsUp := rapid.Bool().Draw(rt, "the reader keeps up")
		dir, err := os.MkdirTemp(t.TempDir(), "")
		require.NoError(rt, err)
		run := Run(dir)
		reader := run.Reader("output") // before the output exists
		defer reader.Close()
		var readData bytes.Buffer
		skipped := int64(0)
		read := func() {
			for b := make([]byte, 7); ; {
				n, s, err := reader.Read(b)
				require.NoError(rt, err)
				if n == 0 && s == 0 {
					return
				}
				readData.Write(b[:n])
				skipped += s
			}
		}

		o, err := newOutput(run.Path("output"), raw, limit, func() {})
		require.NoError(rt, err)
		all := ""
		for _, w := range writes {
			n, err := o.Write([]byte(w))
			require.NoError(rt, err)
			require.Equal(rt, len(w), n)
			all += w
			if keepsUp {
				read()
			}
		}
		o.Close()
		read()
		require.NoError(rt, o.err)
		if limit > 0 {
			require.Equal(rt, int64(len(all)), int64(readData.Len())+skipped)
		}

		requirePages(rt, run, all, raw)

		excerpt, err := run.Excerpt("output", limit)
		require.NoError(rt, err)
		if int64(len(all)) <= raw {
			whole, err := run.Head("output", raw)
			require.NoError(rt, err)
			require.Equal(rt, all, string(whole))
		}
		if int64(len(all)) <= limit {
			require.Equal(rt, all, string(excerpt.Data))
			require.Zero(rt, excerpt.GapSize)
			require.Equal(rt, all, readData.String())
			return
		}
		if limit == 0 {
			require.Empty(rt, excerpt.Data)
			return
		}
		require.LessOrEqual(rt, int64(len(excerpt.Data)), limit)
		require.Positive(rt, excerpt.GapSize)
		head, end := string(excerpt.Data[:excerpt.GapOffset]), string(excerpt.Data[excerpt.GapOffset:])
		require.True(rt, strings.HasPrefix(all, head))
		require.True(rt, strings.HasSuffix(all, end))
		require.Equal(rt, int64(len(all)), int64(len(excerpt.Data))+excerpt.GapSize)
		require.LessOrEqual(rt, int64(len(head)), limit/4)
		tail, err := run.Tail("output", limit/2)
		require.NoError(rt, err)
		require.Equal(rt, all[int64(len(all))-limit/2:], string(tail))
	})
}

// requirePages checks that the pages of the output and the gaps between them are all of the output.
func requirePages(rt *rapid.T, run Run, all string, raw int64) {
	rt.Helper()
	pages, missing := "", int64(0)
	for at, limit := int64(0), rapid.Int64Range(1, 200).Draw(rt, "page"); at < int64(len(all)); {
		p, ok, err := run.Page("output", at, limit)
		require.NoError(rt, err)
		require.True(rt, ok)
		if raw == 0 {
			break
		}
		require.Equal(rt, int64(len(all)), p.Size)
		require.LessOrEqual(rt, int64(len(p.Data)), limit)
		require.NotEmpty(rt, p.Data)
		require.Equal(rt, all[p.Offset:p.Offset+int64(len(p.Data))], string(p.Data))
		if p.Offset > at {
			require.Equal(rt, [2]int64{p.GapOffset, p.GapSize}, [2]int64{at, p.Offset - at})
		}
		missing += p.Offset - at
		pages += string(p.Data)
		at = p.Offset + int64(len(p.Data))
	}
	if raw > 0 {
		require.Equal(rt, int64(len(all)), int64(len(pages))+missing)
	}
}

// TestOutputShares checks that the end gets three quarters of the limit, and that not much more disk space is used than the
// limit.
func TestOutputShares(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	run := Run(t.TempDir())
	o, err := newOutput(run.Path("output"), limit, limit, func() {})
	require.NoError(t, err)
	line := []byte(strings.Repeat("x", 99) + "\n")
	for range 100_000 {
		_, _ = o.Write(line)
	}
	o.Close()
	entries, err := os.ReadDir(string(run))
	require.NoError(t, err)
	diskBytes := int64(0)
	for _, e := range entries {
		info, err := e.Info()
		require.NoError(t, err)
		diskBytes += info.Size()
	}
	require.LessOrEqual(t, diskBytes, int64(limit+limit/segmentCount))
	excerpt, err := run.Excerpt("output", limit)
	require.NoError(t, err)
	require.InDelta(t, limit/4, excerpt.GapOffset, 200)
	require.InDelta(t, limit, len(excerpt.Data), 200)
	require.Equal(t, int64(10_000_000-len(excerpt.Data)), excerpt.GapSize)
}

func TestOutputToFullDisk(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("there is no /dev/full")
	}
	o := &output{file: full, freeBytes: 100, maxTail: 300, onGrow: func() { t.Error("the output must not report growth") }}
	for range 100 {
		n, err := o.Write([]byte("line\n"))
		require.NoError(t, err, "the child must still be drained")
		require.Equal(t, 5, n)
	}
	o.Close()
	require.ErrorContains(t, o.err, "no space left")
	require.EqualValues(t, 500, o.lostBytes)
}
