package app

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
)

// hangups are the SIGHUPs that this process receives.
type hangups struct {
	signals          chan os.Signal // keeps a SIGHUP that arrives while the server starts
	outlivesTerminal bool           // SIGHUP never means that the terminal was closed
}

// catchHangups begins to catch SIGHUP. If SIGHUP was ignored, as with nohup, this process outlives its terminal. The caller must call
// signal.Stop for the signals.
func catchHangups() *hangups {
	h := &hangups{signals: make(chan os.Signal, 1), outlivesTerminal: signal.Ignored(syscall.SIGHUP) || !hasTerminal()}
	signal.Notify(h.signals, syscall.SIGHUP)
	return h
}

// reloadOnHangup reloads the configuration on SIGHUP. If the terminal from which this process was started has been closed, it calls stop instead,
// unless this process outlives its terminal. The returned function ends the handling of SIGHUP, and waits for a reload that runs.
func (a *App) reloadOnHangup(ctx context.Context, h *hangups, stop context.CancelCauseFunc) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.handleHangups(ctx, h.signals, func() bool { return !h.outlivesTerminal && !hasTerminal() }, stop)
	}()
	return func() {
		cancel()
		<-done
	}
}

// handleHangups calls reload for each SIGHUP, until ctx is done. A terminal that is closed sends SIGHUP too: the server then stops,
// unless it was started to outlive the terminal, as nohup does.
func (a *App) handleHangups(ctx context.Context, signals <-chan os.Signal, terminalGone func() bool, stop context.CancelCauseFunc) {
	for {
		select {
		case <-signals:
		case <-ctx.Done():
			return
		}
		if terminalGone() {
			stop(errors.New("the terminal of the server was closed"))
			return
		}
		if _, _, err := a.reload(ctx); err != nil {
			a.log.ErrorContext(ctx, "configuration not reloaded", slog.Any("error", err))
		}
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
