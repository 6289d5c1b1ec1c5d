package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTaskOutput(t *testing.T) {
	t.Parallel()
	server, _ := newStub(t).listen(t, "")
	out, stderr := mustRun(t, server, "task", "output", "t-1")
	require.Equal(t, "beginning\n+\\\xff\n", out)
	require.Contains(t, stderr, "5 bytes before byte 15 are missing")

	out, _ = mustRun(t, server, "task", "output", "t-1", "--tail", "2")
	require.Equal(t, "x\n", out)

	out, _ = mustRun(t, server, "task", "output", "t-1", "-o", "json")
	require.JSONEq(t, `{"output":"YmVnaW5uaW5nCitc/wo=","output_encoding":"base64","offset":0,"size":20,"gap_offset":10,"gap_size":5}`, out)

	require.Equal(t, ExitUsage, newCommand(server).run("task", "output", "t-1", "--tail", "2", "--offset", "1"))
	require.Equal(t, ExitUsage, newCommand(server).run("task", "output", "t-1", "--tail", "0"))
	require.Equal(t, ExitUsage, newCommand(server).run("task", "output", "t-1", "--offset=-1"))
}
