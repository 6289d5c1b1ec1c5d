package inbound

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"fleet/internal/runner/sandbox"
	"fleet/internal/unprivileged"
)

// TestConfinedCaller checks that a sandboxed program does not count as the user it runs as.
func TestConfinedCaller(t *testing.T) {
	t.Parallel()
	l := listen(t, Limits{})
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	argv := []string{"bash", "-c", "exec 9<>/dev/tcp/127.0.0.1/" + port + "; exec sleep 3600"}
	// check accepts the connection of p. want is the user, or -1 if p counts as confined.
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
	plainProcess, err := os.StartProcess("/bin/bash", argv, &os.ProcAttr{})
	require.NoError(t, err)
	check(plainProcess, os.Geteuid())
	if err := sandbox.Available(); err != nil {
		t.Skip(err)
	}
	sandboxedProcess, err := sandbox.Start(sandbox.Policy{Read: sandbox.SystemPaths()}, "/bin/bash", argv, &os.ProcAttr{})
	require.NoError(t, err)
	check(sandboxedProcess, -1)

	conn, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	sharedFile, err := conn.(*net.TCPConn).File()
	require.NoError(t, err)
	t.Cleanup(func() { _ = sharedFile.Close() })
	sandboxedProcess, err = sandbox.Start(sandbox.Policy{Read: sandbox.SystemPaths()}, "/bin/sleep", []string{"sleep", "3600"}, &os.ProcAttr{Files: []*os.File{nil, nil, nil, sharedFile}})
	require.NoError(t, err)
	check(sandboxedProcess, -1) // this process holds the socket too
}

// These are the arguments with which the test program starts as a confined process that hides its descriptors, and as a process
// that starts such a process.
const (
	argHide   = "fleet-test-hide"
	argParent = "fleet-test-parent"
)

func init() {
	if len(os.Args) != 2 {
		return
	}
	switch os.Args[1] {
	case argHide:
		_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
		fmt.Println("hidden")
		_, _ = io.Copy(io.Discard, os.Stdin)
	case argParent:
		self, err := os.Executable()
		if err == nil {
			var p *os.Process
			if p, err = startHidden(self, []*os.File{os.Stdin, os.Stdout, os.Stderr}); err == nil {
				_, err = p.Wait()
			}
		}
		if err != nil {
			panic(err)
		}
	default:
		return
	}
	os.Exit(0)
}

func startHidden(self string, files []*os.File) (*os.Process, error) {
	return sandbox.Start(sandbox.Policy{Read: append(sandbox.SystemPaths(), filepath.Dir(self))}, self, []string{self, argHide}, &os.ProcAttr{Files: files, Env: os.Environ()})
}

// TestHiddenHolder checks that a caller is refused if a confined process of the server's user, which does not show its
// descriptors, may hold the connection. A process that cannot have got the connection does not count.
func TestHiddenHolder(t *testing.T) {
	if unprivileged.Rerun(t) {
		return
	}
	if err := sandbox.Available(); err != nil {
		t.Skip(err)
	}
	self, err := os.Executable()
	require.NoError(t, err)
	lookUpUser := func() error {
		_, c := connect(t)
		_, err := c.User()
		return err
	}
	startAndWait := func(start func(files []*os.File) (*os.Process, error)) {
		in, stdin, err := os.Pipe()
		require.NoError(t, err)
		stdout, out, err := os.Pipe()
		require.NoError(t, err)
		p, err := start([]*os.File{in, out, os.Stderr})
		require.NoError(t, errors.Join(err, in.Close(), out.Close()))
		t.Cleanup(func() { _ = stdin.Close(); _, _ = p.Wait() })
		line, err := bufio.NewReader(stdout).ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "hidden\n", line)
	}
	startAndWait(func(files []*os.File) (*os.Process, error) {
		return os.StartProcess(self, []string{self, argParent}, &os.ProcAttr{Files: files, Env: os.Environ()})
	})
	require.NoError(t, lookUpUser(), "a hidden process whose parent does not have the connection must not count")
	startAndWait(func(files []*os.File) (*os.Process, error) { return startHidden(self, files) })
	require.ErrorIs(t, lookUpUser(), errHidden, "a hidden process must count if this process, which has the connection, has started it")
}
