package placetest

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"fleet/internal/fleet"
)

// following is a Follow under way.
type following struct {
	x    *bench
	done chan struct{}

	mu      sync.Mutex
	outputs []fleet.Output
	grown   chan struct{} // closed and made anew with every output
	outcome fleet.Outcome
	err     error
}

// follow follows the run in the background.
func (x *bench) follow(ctx context.Context, a fleet.Agent, r fleet.Run, cursor string) *following {
	f := &following{x: x, done: make(chan struct{}), grown: make(chan struct{})}
	b := x.b
	go func() {
		defer close(f.done)
		f.outcome, f.err = b.Connect(a).Follow(ctx, r, cursor, func(out fleet.Output) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.outputs = append(f.outputs, out)
			close(f.grown)
			f.grown = make(chan struct{})
			return nil
		})
	}()
	return f
}

func (f *following) seen() ([]fleet.Output, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.outputs), f.grown
}

// until waits until the run has said the line, and returns what it said until then.
func (f *following) until(line string) []fleet.Output {
	f.x.Helper()
	stuck := time.After(f.x.h.Patience)
	for {
		outputs, grown := f.seen()
		if strings.Contains(text(outputs), line) {
			return outputs
		}
		select {
		case <-grown:
		case <-f.done:
			outputs, _ := f.seen()
			if !strings.Contains(text(outputs), line) {
				f.x.FailNow("the run ended", "before it said %q: %+v, %v; it said:\n%s", line, f.outcome, f.err, text(outputs))
			}
			return outputs
		case <-stuck:
			f.x.FailNow("stuck", "the run has not said %q; it said:\n%s", line, text(outputs))
		}
	}
}

// end waits until Follow returns.
func (f *following) end() ([]fleet.Output, fleet.Outcome, error) {
	f.x.Helper()
	select {
	case <-f.done:
	case <-time.After(f.x.h.Patience):
		outputs, _ := f.seen()
		f.x.FailNow("stuck", "Follow does not return; the run said:\n%s", text(outputs))
	}
	return f.outputs, f.outcome, f.err
}
