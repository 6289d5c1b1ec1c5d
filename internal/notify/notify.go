// Package notify wakes goroutines that wait for a change. A notification carries no data, so the receiver must find out for
// itself what has changed.
//
// The stores use it for commits. Package state uses it for the log of events and the state of places.
package notify

import "sync"

// Subscribers are the goroutines to wake. The zero value has none.
type Subscribers struct {
	mu       sync.Mutex
	channels map[chan struct{}]struct{}
}

// Subscribe returns a channel that gets a value after each Notify. The channel holds at most one value. Until that value is
// received, later notifications are dropped, so a slow receiver delays nobody. cancel ends the subscription and may be called
// more than once.
func (s *Subscribers) Subscribe() (signal <-chan struct{}, cancel func()) {
	ch := make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.channels == nil {
		s.channels = map[chan struct{}]struct{}{}
	}
	s.channels[ch] = struct{}{}
	return ch, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.channels, ch)
	}
}

// Notify wakes all subscribers. It does not wait for them.
func (s *Subscribers) Notify() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ch := range s.channels {
		select {
		case ch <- struct{}{}:
		default: // a notification is pending
		}
	}
}

// Len returns the number of subscriptions.
func (s *Subscribers) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.channels)
}
