// Package notify wakes goroutines that wait for a change. A notification carries no data: the receiver looks again.
//
// The stores use it for commits, and package state for the log of events and the state of places.
package notify

import "sync"

// Subscribers are the goroutines to wake. The zero value has none.
type Subscribers struct {
	mu       sync.Mutex
	channels map[chan struct{}]struct{}
}

// Subscribe returns a channel that receives after each Notify. A notification that is not received covers later ones, so a
// slow receiver delays nobody. Cancel ends the subscription; it may be called again.
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

// Len returns how many subscriptions there are.
func (s *Subscribers) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.channels)
}
