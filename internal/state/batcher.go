package state

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// Batcher looks up values by key. Calls that arrive during a lookup share the next one, so that many calls at the same time cost
// the store little.
type Batcher[K comparable, V any] struct {
	read func(ctx context.Context, keys []K) (map[K]V, error)

	mu      sync.Mutex
	reading bool
	next    *lookup[K, V] // the lookup that waiting calls share; nil if no call waits
}

type lookup[K comparable, V any] struct {
	keys   map[K]struct{}
	done   chan struct{} // closed after the lookup
	values map[K]V
	err    error
}

// NewBatcher returns a Batcher that looks up values with read.
func NewBatcher[K comparable, V any](read func(ctx context.Context, keys []K) (map[K]V, error)) *Batcher[K, V] {
	return &Batcher[K, V]{read: read}
}

// Get returns the value of the key, from a lookup that begins after Get was called. It returns the zero value if the lookup finds
// no value for the key.
func (b *Batcher[K, V]) Get(ctx context.Context, key K) (value V, err error) {
	b.mu.Lock()
	if !b.reading {
		b.reading = true
		b.mu.Unlock()
		defer b.finish()
		values, err := b.read(ctx, []K{key})
		return values[key], err
	}
	if b.next == nil {
		b.next = &lookup[K, V]{keys: map[K]struct{}{}, done: make(chan struct{})}
	}
	l := b.next
	l.keys[key] = struct{}{}
	b.mu.Unlock()
	select {
	case <-l.done:
		return l.values[key], l.err
	case <-ctx.Done():
		return value, ctx.Err()
	}
}

// finish ends a lookup. If calls are waiting, it starts the next lookup in the background, so that the caller of finish
// does not wait for it.
func (b *Batcher[K, V]) finish() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == nil {
		b.reading = false
		return
	}
	go b.serve()
}

// serve looks up values for waiting calls until no call waits.
func (b *Batcher[K, V]) serve() {
	for {
		b.mu.Lock()
		l := b.next
		b.next, b.reading = nil, l != nil
		b.mu.Unlock()
		if l == nil {
			return
		}
		l.values, l.err = b.read(context.Background(), slices.Collect(maps.Keys(l.keys)))
		close(l.done)
	}
}
