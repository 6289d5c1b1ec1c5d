package process

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/waittest"
)

// slowBuffer is a buffer whose first Write blocks until gate is closed.
type slowBuffer struct {
	bytes.Buffer
	reached chan struct{} // closed by the first Write
	gate    chan struct{}
}

func newSlowBuffer() *slowBuffer {
	return &slowBuffer{reached: make(chan struct{}), gate: make(chan struct{})}
}

func (s *slowBuffer) Write(p []byte) (int, error) {
	if s.Len() == 0 {
		close(s.reached)
		<-s.gate
	}
	return s.Buffer.Write(p)
}

// ReadFrom hides the buffer's method ReadFrom, which would bypass Write.
func (s *slowBuffer) ReadFrom(io.Reader) (int64, error) { panic("not used") }

// TestRunReadsLate reads output only after the program has ended and Run has waited for it.
func TestRunReadsLate(t *testing.T) {
	t.Parallel()
	out := newSlowBuffer()
	fifo := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	cmd := exec.CommandContext(t.Context(), "bash", "-c", "echo begin; read <"+fifo+"; head -c 60000 /dev/zero")
	cmd.WaitDelay = time.Millisecond
	cmd.Stdout = writer{out}
	ended := make(chan error, 1)
	go func() { ended <- Run(t.Context(), cmd, 0) }()
	<-out.reached
	pid := cmd.Process.Pid
	require.NoError(t, os.WriteFile(fifo, []byte("\n"), 0))
	waittest.Until(t, "Run gives no signal when it has waited for the process", func() bool {
		_, err := Of(pid)
		return errors.Is(err, os.ErrProcessDone)
	})
	close(out.gate)
	require.NoError(t, <-ended)
	require.Equal(t, len("begin\n")+60000, out.Len())
}

// writer has only the method Write.
type writer struct{ io.Writer }

// TestRunWithDaemon runs a program whose child keeps the output open.
func TestRunWithDaemon(t *testing.T) {
	t.Parallel()
	for name, child := range map[string]string{"silent": "sleep 3600", "loud": "yes"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, stderr bytes.Buffer
			cmd := exec.CommandContext(t.Context(), "bash", "-c", "echo $$; "+child+" & echo $! >&2")
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			cmd.Stdout, cmd.Stderr = &out, &stderr
			require.NoError(t, Run(t.Context(), cmd, 0))
			pid, err := strconv.Atoi(strings.TrimSpace(stderr.String()))
			require.NoError(t, err)
			_ = syscall.Kill(pid, syscall.SIGKILL)
			require.True(t, strings.HasPrefix(out.String(), strconv.Itoa(cmd.Process.Pid)+"\n"))
		})
	}
}

// TestRunWaitsForChildren runs a program whose child prints after the program's end, and one whose child never ends.
func TestRunWaitsForChildren(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "bash", "-c", "{ while kill -0 $$ 2>/dev/null; do sleep 0.01; done; echo late; } & echo early")
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, Run(t.Context(), cmd, waittest.Limit))
	require.Equal(t, "early\nlate\n", out.String())

	ctx, cancel := context.WithCancel(t.Context())
	slowOut := newSlowBuffer()
	cmd = exec.CommandContext(ctx, "bash", "-c", "sleep 3600 & echo $!")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stdout = writer{slowOut}
	go func() { <-slowOut.reached; close(slowOut.gate); cancel() }()
	begun := time.Now()
	_ = Run(ctx, cmd, waittest.Limit) // returns an error if the context was done before the program's end
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	require.NotEmpty(t, slowOut.String())
	require.Less(t, time.Since(begun), waittest.Limit, "the end of the context must end the wait for the child")
}

// TestRunErrors checks the result of Run if the program fails, does not read its input, or writes to a broken output.
func TestRunErrors(t *testing.T) {
	t.Parallel()
	run := func(out io.Writer, in io.Reader, argv ...string) error {
		cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
		cmd.Stdin, cmd.Stdout, cmd.WaitDelay = in, out, time.Millisecond
		return Run(t.Context(), cmd, waittest.Limit)
	}
	require.ErrorIs(t, run(io.Discard, nil, "/nothing"), os.ErrNotExist)
	var exit *exec.ExitError
	require.ErrorAs(t, run(io.Discard, nil, "false"), &exit)
	require.NoError(t, run(nil, nil, "true"))
	var pid bytes.Buffer
	require.NoError(t, run(&pid, strings.NewReader(strings.Repeat("x", 1<<20)), "bash", "-c", "sleep 3600 <&0 >/dev/null & echo $!"), "a program that does not read its input must not fail")
	child, err := strconv.Atoi(strings.TrimSpace(pid.String()))
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(child, syscall.SIGKILL))

	errFull := errors.New("full")
	pipeReader, pipeWriter := io.Pipe()
	require.NoError(t, pipeReader.CloseWithError(errFull))
	require.ErrorIs(t, run(pipeWriter, nil, "echo", "much"), errFull)
	require.ErrorAs(t, run(pipeWriter, nil, "yes"), &exit, "the program must fail after its output was closed")
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	require.NoError(t, err)
	defer file.Close()
	require.NoError(t, run(file, nil, "echo", "x"))
	content, err := os.ReadFile(file.Name())
	require.NoError(t, err)
	require.Equal(t, "x\n", string(content))
}
