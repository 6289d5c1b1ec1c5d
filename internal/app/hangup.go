package app

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// reloadOnHangup reloads the configuration on SIGHUP. If the terminal from which this process was started has been closed, it calls stop instead,
// unless SIGHUP was ignored, as with nohup. The returned function ends the handling of SIGHUP, and waits for a reload that runs.
func (a *App) reloadOnHangup(ctx context.Context, stop context.CancelCauseFunc) (end func()) {
	outlivesTerminal := signal.Ignored(syscall.SIGHUP) || !hasTerminal()
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGHUP)
	ctx, cancel := context.WithCancel(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		a.handleHangups(ctx, c, func() bool { return !outlivesTerminal && !hasTerminal() }, stop)
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
