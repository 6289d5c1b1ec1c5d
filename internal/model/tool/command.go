//go:build cgo

package tool

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/docker/cagent/pkg/tools"

	"fleet/internal/runner/process"
)

// childGrace is how long child processes of a tool's program may continue to print after the program has ended.
const childGrace = time.Minute

// CommandHandler returns a handler that runs a program with the arguments of the call on its standard input. The result is the standard
// output of the program and its child processes. If the output is longer than limit bytes, the result is its first limit+1
// bytes, so that the caller can see that it is cut.
func CommandHandler(argv []string, dir string, env []string, limit int) tools.ToolHandler {
	return func(ctx context.Context, c tools.ToolCall) (*tools.ToolCallResult, error) {
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Dir, cmd.Env, cmd.Stdin = dir, env, strings.NewReader(c.Function.Arguments)
		out, stderr := &process.Head{Max: limit + 1}, &process.Head{Max: 4 << 10}
		cmd.Stdout, cmd.Stderr = out, stderr
		killGroupOnCancel(cmd)
		cmd.WaitDelay = time.Second // limits the wait for a program that does not read its input
		err := process.Run(ctx, cmd, childGrace)
		if ctx.Err() != nil {
			if cmd.Process != nil {
				_ = cmd.Cancel() // kills child processes that still run
			}
			return nil, ctx.Err()
		}
		if err != nil {
			return tools.ResultError(strings.TrimSpace(fmt.Sprintf("The command failed: %v\n%s\n%s", err, stderr, out))), nil
		}
		return tools.ResultSuccess(out.String()), nil
	}
}

// killGroupOnCancel makes the cancellation of the command's context also kill the children of its process.
func killGroupOnCancel(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
