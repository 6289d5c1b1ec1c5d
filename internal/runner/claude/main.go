package claude

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"fleet/internal/runner/program"
)

// exitCodeKilled is the exit code of a program that was ended by SIGKILL.
const exitCodeKilled = 128 + int(syscall.SIGKILL)

// replaceProcess replaces this process with Claude Code, for a person on a terminal. It returns only on failure.
func (j *Job) replaceProcess() error {
	path, err := exec.LookPath(j.Argv[0])
	if err == nil {
		err = answerFirstQuestions()
	}
	if err != nil {
		return err
	}
	return syscall.Exec(path, j.Argv, os.Environ())
}

// Main executes the job in the file args[0] in the current directory. It returns Claude Code's exit code. It returns 1 if the job
// cannot be executed, or if Claude Code returned 0 although Fleet has ended the run because it could not succeed.
func Main(args []string) int {
	return program.Main(args, func(ctx context.Context, j *Job) int {
		exitCode, err := j.execute(ctx)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		if exitCode == exitCodeKilled {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // so that the supervisor sees how Claude Code ended
		}
		return exitCode
	})
}

func (j *Job) execute(ctx context.Context) (exitCode int, err error) {
	if j.Trust != nil {
		dir, err := os.Getwd()
		if err == nil {
			err = setTrust(dir, *j.Trust)
		}
		if err != nil {
			return 0, err
		}
	}
	if j.Terminal {
		return 0, j.replaceProcess()
	}
	return run(ctx, j, os.Stdout)
}
