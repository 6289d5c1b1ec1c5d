package inbound

import (
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/runner/sandbox"
)

// TestConfinedCaller checks that a sandboxed program does not count as the user it runs as.
func TestConfinedCaller(t *testing.T) {
	t.Parallel()
	l := listen(t, Limits{})
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	argv := []string{"bash", "-c", "exec 9<>/dev/tcp/127.0.0.1/" + port + "; exec sleep 3600"}
	check := func(p *os.Process, want int) {
		t.Cleanup(func() { _ = p.Kill(); _, _ = p.Wait() })
		c, err := l.Accept()
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		user, err := c.(*Conn).User()
		if want < 0 {
			require.ErrorIs(t, err, ErrConfined)
			return
		}
		require.NoError(t, err)
		require.Equal(t, want, user)
	}
	plain, err := os.StartProcess("/bin/bash", argv, &os.ProcAttr{})
	require.NoError(t, err)
	check(plain, os.Geteuid())
	if err := sandbox.Available(); err != nil {
		t.Skip(err)
	}
	kept, err := sandbox.Start(sandbox.Policy{Read: sandbox.System()}, "/bin/bash", argv, &os.ProcAttr{})
	require.NoError(t, err)
	check(kept, -1)

	conn, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	shared, err := conn.(*net.TCPConn).File()
	require.NoError(t, err)
	t.Cleanup(func() { _ = shared.Close() })
	kept, err = sandbox.Start(sandbox.Policy{Read: sandbox.System()}, "/bin/sleep", []string{"sleep", "3600"}, &os.ProcAttr{Files: []*os.File{nil, nil, nil, shared}})
	require.NoError(t, err)
	check(kept, -1) // this process holds the socket too
}
