package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTaskOutput(t *testing.T) {
	t.Parallel()
	server, _ := newStub(t).listen(t, "")
	c := newCommand(server)
	require.Equal(t, ExitOK, c.run("task", "output", "t-1"), c.err.String())
	require.Equal(t, "beginning\n+\\\xff\n", c.out.String())
	require.Contains(t, c.err.String(), "5 bytes before byte 15 are missing")

	c = newCommand(server)
	require.Equal(t, ExitOK, c.run("task", "output", "t-1", "--tail", "2"), c.err.String())
	require.Equal(t, "x\n", c.out.String())

	c = newCommand(server)
	require.Equal(t, ExitOK, c.run("task", "output", "t-1", "-o", "json"), c.err.String())
	require.JSONEq(t, `{"output":"YmVnaW5uaW5nCitc/wo=","output_encoding":"base64","offset":0,"size":20,"gap_offset":10,"gap_size":5}`, c.out.String())

	require.Equal(t, ExitUsage, c.run("task", "output", "t-1", "--tail", "2", "--offset", "1"))
	require.Equal(t, ExitUsage, c.run("task", "output", "t-1", "--tail", "0"))
	require.Equal(t, ExitUsage, c.run("task", "output", "t-1", "--offset=-1"))
}
