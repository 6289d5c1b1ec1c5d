package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTaskDiff(t *testing.T) {
	t.Parallel()
	server, _ := newStub(t).listen(t, "")
	c := newCommand(server)
	require.Equal(t, ExitOK, c.run("task", "diff", "t-1", "--path", "main.go"), c.err.String())
	require.Equal(t, "diff main.go\n+\\\xff\n", c.out.String())

	c = newCommand(server)
	require.Equal(t, ExitOK, c.run("task", "diff", "t-1", "-o", "json"), c.err.String())
	require.Contains(t, c.out.String(), `"patch_encoding": "base64"`)

	c = newCommand(server)
	require.Equal(t, ExitOK, c.run("task", "diff", "t-1", "--stat"), c.err.String())
	require.Regexp(t, `(?m)^added +3 +0 +main.go$`, c.out.String())
	require.Regexp(t, `(?m)^renamed +binary +binary +a.png -> b.png$`, c.out.String())

	c = newCommand(server)
	require.Equal(t, ExitOK, c.run("task", "diff", "t-unknown", "--stat"), c.err.String())
	said := c.out.String() + c.err.String()
	require.Contains(t, said, "It is not known which files the task changed.")
	require.Contains(t, said, "not known: the disk is full")
	require.NotContains(t, said, "changed no files")

	c = newCommand(server)
	require.Equal(t, ExitUsage, c.run("task", "diff", "t-1", "--stat", "--path", "x"))
}

// TestDiffSaysWhatIsMissing checks that a diff that goes to a pipe says on standard error what is not kept, also if it is empty.
func TestDiffSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	server, _ := newStub(t).listen(t, "")
	for _, more := range [][]string{nil, {"--stat"}} {
		out, text, code := fleet(server, append([]string{"task", "diff", "incomplete"}, more...)...)
		require.Equal(t, ExitOK, code, text)
		require.NotContains(t, out, "big")
		require.Contains(t, text, "Not kept: big (larger than 50 MiB)")
		require.NotContains(t, text, "\x1b")
	}
}
