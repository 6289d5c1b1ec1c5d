package claude

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
)

// killed is the status of a program that was ended by SIGKILL.
const killed = 128 + int(syscall.SIGKILL)

// replaceProcess replaces this process with Claude Code, for a person on a terminal. It returns only on failure.
func (j *Job) replaceProcess() error {
	path, err := exec.LookPath(j.Argv[0])
	if err == nil {
		err = welcome()
	}
	if err != nil {
		return err
	}
	return syscall.Exec(path, j.Argv, os.Environ())
}

// Main executes the job in the file args[0] in the current directory. It returns Claude Code's exit code, or 1 if the
// run failed before Claude Code ended.
func Main(args []string) int {
	if len(args) != 1 {
		fmt.Fprintln(os.Stderr, "usage: pass the file of a job; this command is internal to Fleet")
		return 2
	}
	runtime.LockOSThread() // the program dies with the thread that starts it
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-signals
		cancel()
	}()
	j, err := readJob(args[0])
	if err == nil && j.Trust != nil {
		var dir string
		if dir, err = os.Getwd(); err == nil {
			err = setTrust(dir, *j.Trust)
		}
	}
	if err == nil && j.Terminal {
		err = j.replaceProcess()
	}
	if err == nil {
		var status int
		if status, err = run(ctx, j, os.Stdout); err == nil {
			if status == killed {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // so that the supervisor sees how Claude Code ended
			}
			return status
		}
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}
