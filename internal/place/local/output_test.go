package local_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/local"
	"fleet/internal/runner/shim"
)

// TestHugeOutput runs a program whose output is far larger than the part that Fleet keeps.
func TestHugeOutput(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	w := newTestPlace(t, func(c *local.Config) { c.MaxPayloadOutput, c.MaxRawOutput = limit, limit })
	a := w.provisionIn("shell")
	r := w.start(a, "echo begin; head -c 100000000 /dev/zero | tr '\\0' x | fold -w 99; echo; echo the end")
	output, o := w.follow(a, r)
	require.Equal(t, fleet.TaskCompleted, o.Status)
	require.Equal(t, "the end", o.Summary)
	require.True(t, strings.HasPrefix(output, "begin\nxxx"))
	require.True(t, strings.HasSuffix(output, "x\nthe end\n"))
	require.LessOrEqual(t, len(o.Payload), limit)
	require.Positive(t, o.Gap.Size)
	require.Equal(t, 6+100_000_000+1_010_102+8, int(o.Gap.Size)+len(o.Payload))
	require.InDelta(t, limit/4, o.Gap.Offset, 200)
	require.True(t, bytes.HasPrefix(o.Payload, []byte("begin\nxxx")))
	require.True(t, bytes.HasSuffix(o.Payload, []byte("x\nthe end\n")))
	page, err := w.Connect(a).Output(w.ctx, r, limit/2, 100) // the offset is in the gap
	require.NoError(t, err)
	require.EqualValues(t, 6+100_000_000+1_010_102+8, page.Size)
	require.EqualValues(t, limit/4, page.GapOffset)
	require.Equal(t, page.GapOffset+page.GapSize, page.Offset)
	require.Equal(t, strings.Repeat("x", 30), strings.ReplaceAll(string(page.Data), "\n", "")[:30])
	require.Len(t, page.Data, 100)
	again, same := w.follow(a, r)
	require.Equal(t, o, same)
	require.True(t, strings.HasSuffix(again, "x\nthe end\n"))
	require.LessOrEqual(t, len(again), limit+limit/4)
}

// TestLongOutput runs a program whose output is too large for the payload. If MaxRawOutput is large enough, Follow must return all of
// the output. The payload must not depend on MaxRawOutput.
func TestLongOutput(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	script := "for i in $(seq 300000); do echo line $i; done; echo the end"
	var payloads [][]byte
	for _, maxRawOutput := range []int64{limit, 8 * limit} {
		w := newTestPlace(t, func(c *local.Config) { c.MaxPayloadOutput, c.MaxRawOutput = limit, maxRawOutput })
		a := w.provisionIn("shell")
		r := w.start(a, script)
		output, o := w.follow(a, r)
		require.Equal(t, fleet.TaskCompleted, o.Status)
		require.Positive(t, o.Gap.Size)
		require.LessOrEqual(t, len(o.Payload), limit)
		payloads = append(payloads, o.Payload)
		if maxRawOutput > limit {
			require.Len(t, output, int(o.Gap.Size)+len(o.Payload))
			again, same := w.follow(a, r)
			require.Equal(t, output, again)
			require.Equal(t, o, same)
		}
	}
	require.True(t, bytes.Equal(payloads[0], payloads[1]))
}

// TestProblemOfRun checks that Follow reports a problem of the supervisor even if the program has not failed. It must
// report the problem once, after the output.
func TestProblemOfRun(t *testing.T) {
	t.Parallel()
	w, a := newShellPlace(t)
	r := w.start(a, "echo kept")
	before, _ := w.outputs(a, r, "")
	path := w.runDir(a, r, "exit.json")
	var exit shim.Exit
	require.NoError(t, json.Unmarshal([]byte(readFile(t, path)), &exit))
	exit.Problem = "the output could not be kept: no space left on device" // as on a full disk
	b, err := json.Marshal(exit)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, b, 0o600))
	all, o := w.outputs(a, r, "")
	require.Equal(t, fleet.TaskCompleted, o.Status)
	require.Equal(t, "kept\n<the output could not be kept: no space left on device>\n", outputText(all))
	rest, _ := w.outputs(a, r, before[len(before)-1].Cursor)
	require.Equal(t, "<the output could not be kept: no space left on device>\n", outputText(rest))
	rest, _ = w.outputs(a, r, all[len(all)-1].Cursor)
	require.Empty(t, rest)
}

// TestInvalidUTF8 runs a program that prints invalid UTF-8.
func TestInvalidUTF8(t *testing.T) {
	t.Parallel()
	w, a := newShellPlace(t)
	r := w.start(a, `head -c 300000 /dev/urandom; printf '\nh\303\251 \360\237\230\200 \303(\n\000\377 end\n'`)
	outputs, o := w.outputs(a, r, "")
	for _, out := range outputs {
		require.True(t, utf8.ValidString(out.Text))
		require.NotContains(t, out.Text, "\x00")
		require.LessOrEqual(t, len(out.Text), 3*32<<10)
	}
	require.True(t, strings.HasSuffix(outputText(outputs), "\nhé 😀 \uFFFD(\n\uFFFD\uFFFD end\n"))
	require.True(t, bytes.HasSuffix(o.Payload, []byte("\nh\xc3\xa9 \xf0\x9f\x98\x80 \xc3(\n\x00\xff end\n")), "the payload must have the output byte for byte")
	for i, out := range outputs {
		rest, _ := w.outputs(a, r, out.Cursor)
		require.Equal(t, outputText(outputs[i+1:]), outputText(rest))
	}
}

// TestHangingReader checks that a hanging follower does not slow down the program.
func TestHangingReader(t *testing.T) {
	t.Parallel()
	w, a := newShellPlace(t)
	r := w.start(a, "seq 200000; read -r x <$FLEET_MESSAGES")
	taken := make(chan struct{})
	ctx, cancel := context.WithCancel(w.ctx)
	ended := make(chan error)
	go func() {
		_, err := w.Connect(a).Follow(ctx, r, "", func(fleet.Output) error {
			close(taken)
			<-ctx.Done()
			return ctx.Err()
		})
		ended <- err
	}()
	<-taken
	w.followUntil(a, r, "200000\n")
	require.NoError(t, w.Connect(a).Send(w.ctx, r, "1", "end"))
	output, o := w.follow(a, r)
	require.Equal(t, fleet.TaskCompleted, o.Status)
	require.Len(t, strings.Fields(output), 200000)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

// TestCursors checks that Follow continues after a cursor, also inside an incomplete line, and that it refuses invalid cursors.
func TestCursors(t *testing.T) {
	t.Parallel()
	w, a := newShellPlace(t)
	r := w.startUntil(a, "echo one; printf two; read -r x <$FLEET_MESSAGES; echo three", "two") // an incomplete line has its own cursor
	require.NoError(t, w.Connect(a).Send(w.ctx, r, "1", "go"))
	w.follow(a, r)
	for cursor, want := range map[string]string{
		"": "one\ntwothree\n", "0": "one\ntwothree\n", "4": "twothree\n", "7": "three\n", "13": "", "9999": "",
	} {
		outputs, o := w.outputs(a, r, cursor)
		require.Equal(t, want, outputText(outputs), "after %q", cursor)
		require.Equal(t, "twothree", o.Summary)
	}
	for _, cursor := range []string{"x", "-1", "1.x", "1.-1", "1.2.3", "99999999999999999999"} {
		_, err := w.Connect(a).Follow(w.ctx, r, cursor, func(fleet.Output) error { return nil })
		require.Equal(t, fleet.ReasonInvalidArgument, fleet.ReasonOf(err), cursor)
	}
}

// TestOutputOfOldRunsIsRemoved checks that the output of old runs is removed, and that their outcomes remain.
func TestOutputOfOldRunsIsRemoved(t *testing.T) {
	t.Parallel()
	w, a := newShellPlace(t)
	first := w.start(a, "echo once >>times; echo first")
	w.follow(a, first)
	for range 21 {
		w.runTask(a, "true")
	}
	output, o := w.follow(a, first)
	require.Empty(t, output)
	require.Equal(t, fleet.TaskCompleted, o.Status)
	_, err := w.Connect(a).Output(w.ctx, first, 0, 100)
	requireReason(t, err, fleet.ReasonOutputNotFound)
	require.NoError(t, w.Connect(a).Dispatch(w.ctx, first))
	times := readFile(t, filepath.Join(w.home(a, "work"), "times"))
	require.Equal(t, "once\n", times)
	kept, err := filepath.Glob(w.home(a, "runs", "*", "output"))
	require.NoError(t, err)
	require.LessOrEqual(t, len(kept), 21)
}
