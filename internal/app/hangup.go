package app

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// reloadOnHangup reloads the configuration on SIGHUP, or calls stop if the terminal has been closed. The returned function ends this and waits.
func (a *App) reloadOnHangup(ctx context.Context, stop context.CancelCauseFunc) (end func()) {
	outlives := signal.Ignored(syscall.SIGHUP) || !hasTerminal()
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGHUP)
	ctx, cancel := context.WithCancel(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		a.handleHangups(ctx, c, func() bool { return !outlives && !hasTerminal() }, stop)
	}()
	return func() {
		signal.Stop(c)
		cancel()
		<-over
	}
}

// hasTerminal reports whether this process has a controlling terminal.
func hasTerminal() bool {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	_ = f.Close()
	return true
}
