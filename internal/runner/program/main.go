package program

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
)

// Main reads the job in the file args[0], as JSON, and passes it to execute. The context of execute ends when the process gets
// SIGTERM or SIGINT. Main returns the exit code of execute, or another one if it cannot read the job. It must be called by the main
// goroutine: a program that execute starts dies with its thread.
func Main[J any](args []string, execute func(context.Context, *J) int) int {
	if len(args) != 1 {
		fmt.Fprintln(os.Stderr, "usage: pass the file of a job; this command is internal to Fleet")
		return 2
	}
	runtime.LockOSThread()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	var j J
	data, err := os.ReadFile(args[0])
	if err == nil {
		err = json.Unmarshal(data, &j)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot read the job:", err)
		return 1
	}
	return execute(ctx, &j)
}
