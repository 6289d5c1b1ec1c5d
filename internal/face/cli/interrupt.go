package cli

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// interrupts passes Ctrl-C and SIGTERM to the current handler. Without a handler, it cancels the command's context.
type interrupts struct {
	mu            sync.Mutex
	handle        func()
	cancel        context.CancelCauseFunc
	stopListening func() // stops listening: the next signal ends the process at once
}

// listen starts delivering signals and returns a function that stops it. The signals come from the channel, or from the
// operating system if the channel is nil.
func (i *interrupts) listen(signals <-chan os.Signal, cancel context.CancelCauseFunc) (stop func()) {
	i.cancel, i.stopListening = cancel, func() {}
	if signals == nil {
		c := make(chan os.Signal, 4)
		signal.Notify(c, os.Interrupt, syscall.SIGTERM)
		i.stopListening = func() { signal.Stop(c) }
		signals = c
	}
	quit, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-signals:
				i.deliver()
			case <-quit:
				return
			}
		}
	}()
	return func() {
		i.stopListening()
		close(quit)
		<-stopped
	}
}

func (i *interrupts) deliver() {
	i.mu.Lock()
	handle := i.handle
	i.mu.Unlock()
	if handle != nil {
		handle()
		return
	}
	i.cancel(errInterrupted)
	i.stopListening()
}

// setHandler makes handle receive every signal until release is called. handle must not block.
func (i *interrupts) setHandler(handle func()) (release func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.handle = handle
	return func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.handle = nil
	}
}
