package placetest

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/waittest"
)

// activeFollow is an active Follow call.
type activeFollow struct {
	x    *fixture
	done chan struct{} // closed when Follow has returned

	outcome fleet.Outcome // outcome and err are the results of Follow, set before done is closed
	err     error

	mu      sync.Mutex
	outputs []fleet.Output
	asked   []fleet.Question // every question that Follow has reported, in order
	grown   chan struct{}    // closed and replaced by a new channel at every output and question
}

// follow follows the run in the background.
func (x *fixture) follow(ctx context.Context, a fleet.Agent, r fleet.Run, cursor string) *activeFollow {
	f := &activeFollow{x: x, done: make(chan struct{}), grown: make(chan struct{})}
	place := x.place
	go func() {
		defer close(f.done)
		f.outcome, f.err = place.Connect(a).Follow(ctx, r, cursor, func(out fleet.Output) error {
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

// seen returns the outputs so far, and a channel that is closed at the next output or question.
func (f *activeFollow) seen() ([]fleet.Output, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.outputs), f.grown
}

// until waits until the run's output contains the line, and returns the outputs so far.
func (f *activeFollow) until(line string) []fleet.Output {
	f.x.Helper()
	stuck := time.After(waittest.Limit)
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
				f.x.FailNow("the run ended", "before it printed %q: %+v, %v; it printed:\n%s", line, f.outcome, f.err, text(outputs))
			}
			return outputs
		case <-stuck:
			f.x.FailNow("stuck", "the run has not printed %q; it printed:\n%s", line, text(outputs))
		}
	}
}

// question waits until Follow has reported a question with the id and the status, and returns the question. An empty id
// means any id. If several questions match, question returns the one that was reported last.
func (f *activeFollow) question(id string, want fleet.QuestionStatus) fleet.Question {
	f.x.Helper()
	return f.matchingQuestion(want, func(q fleet.Question) bool { return id == "" || q.ID == id })
}

// nextQuestion waits until Follow has reported a waiting question other than the one with the id, and returns it.
func (f *activeFollow) nextQuestion(id string) fleet.Question {
	f.x.Helper()
	return f.matchingQuestion(fleet.QuestionWaiting, func(q fleet.Question) bool { return q.ID != id })
}

func (f *activeFollow) matchingQuestion(want fleet.QuestionStatus, matches func(fleet.Question) bool) fleet.Question {
	f.x.Helper()
	stuck := time.After(waittest.Limit)
	for ended := false; ; {
		f.mu.Lock()
		asked, grown := slices.Clone(f.asked), f.grown
		f.mu.Unlock()
		for _, q := range slices.Backward(asked) {
			if q.Status == want && matches(q) {
				return q
			}
		}
		if ended {
			f.x.FailNow("the run ended", "before it reported a question with the status %s: %+v, %v", want, f.outcome, f.err)
		}
		select {
		case <-grown:
		case <-f.done:
			ended = true
		case <-stuck:
			f.x.FailNow("stuck", "no question has the status %s; reported questions: %+v", want, asked)
		}
	}
}

// end waits until Follow returns, and returns all outputs and the results of Follow.
func (f *activeFollow) end() ([]fleet.Output, fleet.Outcome, error) {
	f.x.Helper()
	select {
	case <-f.done:
	case <-time.After(waittest.Limit):
		outputs, _ := f.seen()
		f.x.FailNow("stuck", "Follow does not return; the run printed:\n%s", text(outputs))
	}
	return f.outputs, f.outcome, f.err
}

// finish is like end, and requires that Follow has not failed.
func (f *activeFollow) finish() ([]fleet.Output, fleet.Outcome) {
	f.x.Helper()
	outputs, o, err := f.end()
	f.x.NoError(err)
	return outputs, o
}
