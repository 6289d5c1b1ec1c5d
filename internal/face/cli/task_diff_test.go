package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTaskDiff(t *testing.T) {
	t.Parallel()
	server, _ := newStub(t).listen(t, "")
	out, _ := mustRun(t, server, "task", "diff", "t-1", "--path", "main.go")
	require.Equal(t, "diff main.go\n+\\\xff\n", out)

	out, _ = mustRun(t, server, "task", "diff", "t-1", "-o", "json")
	require.Contains(t, out, `"patch_encoding": "base64"`)

	out, _ = mustRun(t, server, "task", "diff", "t-1", "--stat")
	require.Regexp(t, `(?m)^added +3 +0 +main.go$`, out)
	require.Regexp(t, `(?m)^renamed +binary +binary +a.png -> b.png$`, out)

	out, stderr := mustRun(t, server, "task", "diff", "t-unknown", "--stat")
	text := out + stderr
	require.Contains(t, text, "It is not known which files the task changed.")
	require.Contains(t, text, "not known: the disk is full")
	require.NotContains(t, text, "changed no files")

	require.Equal(t, ExitUsage, newCommand(server).run("task", "diff", "t-1", "--stat", "--path", "x"))
	for flag, since := range map[string]string{"--since-review": "review", "--whole": "work"} {
		out, _ := mustRun(t, server, "task", "diff", "t-1", flag)
		require.Equal(t, "diff "+since+"\n+\\\xff\n", out)
	}
	require.Equal(t, ExitUsage, newCommand(server).run("task", "diff", "t-1", "--since-review", "--whole"))
}

// TestDiffSaysWhatIsMissing checks that a diff that goes to a pipe reports on standard error which changes were not kept, even
// if it is empty.
func TestDiffSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	server, _ := newStub(t).listen(t, "")
	for _, more := range [][]string{nil, {"--stat"}} {
		out, text := mustRun(t, server, append([]string{"task", "diff", "incomplete"}, more...)...)
		require.NotContains(t, out, "big")
		require.Contains(t, text, "Not kept: big (larger than 50 MiB)")
		require.NotContains(t, text, "\x1b")
	}
}
