package shim

import (
	"errors"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/waittest"
)

// TestOutputReadLate ends a run while its output is still in the pipe. The pump reads late, and an unrelated process
// keeps the pipe open. No output may be lost.
func TestOutputReadLate(t *testing.T) {
	t.Parallel()
	run := Run(t.TempDir())
	reached, gate := make(chan struct{}), make(chan struct{})
	reach := sync.OnceFunc(func() { close(reached) })
	to, err := newOutput(run.Path("output"), 1<<20, 0, func() { reach(); <-gate })
	require.NoError(t, err)
	from, child, err := os.Pipe()
	require.NoError(t, err)
	defer child.Close()
	p := &pump{from: from, to: to, done: make(chan struct{})}
	go p.run()
	_, err = child.WriteString("begin\n")
	require.NoError(t, err)
	<-reached
	_, err = child.WriteString(strings.Repeat("x", 60000)) // the pipe has room for it
	require.NoError(t, err)
	s := &supervisor{control: &control{done: make(chan struct{})}, pumps: []*pump{p}}
	ended := make(chan Exit, 1)
	go func() { ended <- s.finish() }()
	waittest.Until(t, "no signal reports that a read deadline was set", func() bool {
		conn, err := from.SyscallConn()
		require.NoError(t, err)
		return errors.Is(conn.Read(func(uintptr) bool { return true }), os.ErrDeadlineExceeded)
	})
	close(gate)
	require.Empty(t, (<-ended).Problem)
	content, err := os.ReadFile(run.Path("output"))
	require.NoError(t, err)
	require.Len(t, content, len("begin\n")+60000)
}
