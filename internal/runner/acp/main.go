package acp

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
)

// Main executes the job in the file args[0] in the current directory. It returns the exit code, which is 0 if every
// turn ended normally or was cancelled.
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
	out := &output{to: os.Stdout}
	j, err := readJob(args[0])
	if err == nil {
		err = run(ctx, j, out)
	}
	if err != nil {
		out.write(Line{Type: LineError, Text: err.Error(), Code: codeOf(err)})
		return 1
	}
	return 0
}
