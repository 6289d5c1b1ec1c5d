package placetest

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"fleet/internal/fleet"
)

// following is an active Follow call.
type following struct {
	x    *fixture
	done chan struct{}

	mu      sync.Mutex
	outputs []fleet.Output
	asked   []fleet.Question // every report of a question
	grown   chan struct{}    // closed and replaced with every output
	outcome fleet.Outcome
	err     error
}

// follow follows the run in the background.
func (x *fixture) follow(ctx context.Context, a fleet.Agent, r fleet.Run, cursor string) *following {
	f := &following{x: x, done: make(chan struct{}), grown: make(chan struct{})}
	b := x.b
	go func() {
		defer close(f.done)
		f.outcome, f.err = b.Connect(a).Follow(ctx, r, cursor, func(out fleet.Output) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			if out.Question != nil {
				f.asked = append(f.asked, *out.Question)
			} else {
				f.outputs = append(f.outputs, out)
			}
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

// until waits for a line of the run's output, and returns the output so far.
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

// question waits until the run reports the question with the status, and returns it. An empty id means the last
// question.
func (f *following) question(id string, want fleet.QuestionStatus) fleet.Question {
	f.x.Helper()
	stuck := time.After(f.x.h.Patience)
	for ended := false; ; {
		f.mu.Lock()
		asked, grown := slices.Clone(f.asked), f.grown
		f.mu.Unlock()
		for _, q := range slices.Backward(asked) {
			if (id == "" || q.ID == id) && q.Status == want {
				return q
			}
		}
		if ended {
			f.x.FailNow("the run ended", "before a question was %s: %+v, %v", want, f.outcome, f.err)
		}
		select {
		case <-grown:
		case <-f.done:
			ended = true
		case <-stuck:
			f.x.FailNow("stuck", "no question is %s; told was: %+v", want, asked)
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
