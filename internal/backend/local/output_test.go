package local_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"fleet/internal/backend/local"
	"fleet/internal/fleet"
)

// TestHugeOutput runs a program that puts out far more than is kept.
func TestHugeOutput(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	w := newWorld(t, func(c *local.Config) { c.MaxOutput = limit })
	a := w.agent("shell")
	r := w.start(a, "echo begin; head -c 100000000 /dev/zero | tr '\\0' x | fold -w 99; echo; echo the end")
	output, o := w.follow(a, r)
	require.Equal(t, fleet.TaskCompleted, o.Status)
	require.Equal(t, "the end", o.Summary)
	require.True(t, strings.HasPrefix(output, "begin\nxxx"))
	require.True(t, strings.HasSuffix(output, "x\nthe end\n"))
	require.Contains(t, output, "the output is longer than its limit")
	require.Contains(t, output, "bytes were left out here")
	info, err := os.Stat(w.runDir(a, r, "output"))
	require.NoError(t, err)
	require.LessOrEqual(t, info.Size(), int64(limit+1000))
	require.LessOrEqual(t, len(o.Payload), limit+1000)
}

// TestGarbage runs a program that puts out bytes that are no text.
func TestGarbage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	a := w.agent("shell")
	r := w.start(a, `head -c 300000 /dev/urandom; printf '\nh\303\251 \360\237\230\200 \303(\n\000\377 end\n'`)
	outputs, o := w.outputs(a, r, "")
	for _, out := range outputs {
		require.True(t, utf8.ValidString(out.Text))
		require.NotContains(t, out.Text, "\x00")
		require.LessOrEqual(t, len(out.Text), 3*32<<10)
	}
	require.True(t, strings.HasSuffix(said(outputs), "\nhé 😀 \uFFFD(\n\uFFFD\uFFFD end\n"))
	require.True(t, utf8.Valid(o.Payload))
	for i, out := range outputs {
		rest, _ := w.outputs(a, r, out.Cursor)
		require.Equal(t, said(outputs[i+1:]), said(rest))
	}
}

// TestStuckSink holds that a reader that takes nothing does not slow the program.
func TestStuckSink(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	a := w.agent("shell")
	r := w.start(a, "seq 200000; touch done; read -r x")
	taken := make(chan struct{})
	ctx, cancel := context.WithCancel(w.ctx)
	ended := make(chan error)
	go func() {
		_, err := w.Follow(ctx, a, r, "", func(fleet.Output) error {
			close(taken)
			<-ctx.Done()
			return ctx.Err()
		})
		ended <- err
	}()
	<-taken
	w.until(a, r, "200000\n")
	require.NoError(t, w.Send(w.ctx, a, r, "1", "end"))
	output, o := w.follow(a, r)
	require.Equal(t, fleet.TaskCompleted, o.Status)
	require.Len(t, strings.Fields(output), 200000)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

func TestCursors(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	a := w.agent("shell")
	r := w.start(a, "echo one; printf two; read -r x; echo three")
	w.until(a, r, "two") // half a line, with a cursor of its own
	require.NoError(t, w.Send(w.ctx, a, r, "1", "go"))
	w.follow(a, r)
	for cursor, want := range map[string]string{
		"": "one\ntwothree\n", "0": "one\ntwothree\n", "4": "twothree\n", "7": "three\n", "13": "", "9999": "",
	} {
		outputs, o := w.outputs(a, r, cursor)
		require.Equal(t, want, said(outputs), "after %q", cursor)
		require.Equal(t, "twothree", o.Summary)
	}
	for _, cursor := range []string{"x", "-1", "1.x", "1.-1", "1.2.3", "99999999999999999999"} {
		_, err := w.Follow(w.ctx, a, r, cursor, func(fleet.Output) error { return nil })
		require.Equal(t, fleet.ReasonInvalidArgument, fleet.ReasonOf(err), cursor)
	}
}

// TestOldRuns holds that of old runs only the output goes.
func TestOldRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	a := w.agent("shell")
	first := w.start(a, "echo once >>times; echo first")
	w.follow(a, first)
	for range 21 {
		w.do(a, "true")
	}
	output, o := w.follow(a, first)
	require.Empty(t, output)
	require.Equal(t, fleet.TaskCompleted, o.Status)
	require.NoError(t, w.Dispatch(w.ctx, a, first))
	times, err := os.ReadFile(filepath.Join(w.home(a, "work"), "times"))
	require.NoError(t, err)
	require.Equal(t, "once\n", string(times))
	kept, err := filepath.Glob(w.home(a, "runs", "*", "output"))
	require.NoError(t, err)
	require.LessOrEqual(t, len(kept), 21)
}
