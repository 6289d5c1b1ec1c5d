package record

import (
	"errors"
	"sync"
)

// ErrClosed is returned by every call on a closed store.
var ErrClosed = errors.New("the store is closed")

// Calls tracks the pending calls of a store, so that the store can be closed after the last one.
type Calls struct {
	mu      sync.Mutex
	closed  bool
	pending sync.WaitGroup
}

// Begin begins a call, which the caller must end with End. It returns ErrClosed after Close.
func (c *Calls) Begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	c.pending.Add(1)
	return nil
}

// End ends a call.
func (c *Calls) End() { c.pending.Done() }

// Close makes Begin refuse further calls, and waits for the pending calls. It reports whether it was called for the first time.
func (c *Calls) Close() (first bool) {
	c.mu.Lock()
	first = !c.closed
	c.closed = true
	c.mu.Unlock()
	c.pending.Wait()
	return first
}
