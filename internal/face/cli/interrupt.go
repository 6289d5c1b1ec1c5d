package cli

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// interrupts passes Ctrl-C and SIGTERM to the current handler. Without a handler, the first signal cancels the command's context, and the
// next one ends the process.
type interrupts struct {
	mu            sync.Mutex
	handle        func()
	cancel        context.CancelCauseFunc
	stopListening func() // gives signals of the operating system their default effect again: they end the process
}

// listen starts the delivery of signals. They come from the channel, or from the operating system if the channel is nil. The function stop
// ends the delivery and waits for a handler that runs.
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

// deliver handles one signal.
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

// setHandler makes interrupts call handle for every signal until release is called. handle must not block. There is at most one handler.
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
