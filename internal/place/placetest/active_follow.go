package placetest

import (
	"context"
	"fmt"
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
	changed chan struct{}    // closed and replaced by a new channel at every output and question
}

// follow follows the run in the background.
func (x *fixture) follow(ctx context.Context, a fleet.Agent, r fleet.Run, cursor string) *activeFollow {
	f := &activeFollow{x: x, done: make(chan struct{}), changed: make(chan struct{})}
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
			close(f.changed)
			f.changed = make(chan struct{})
			return nil
		})
	}()
	return f
}

// wait waits until found returns true. It calls found, which may read outputs and asked, at the start and after every output and question.
// It fails the test if found still returns false when Follow has returned or waittest.Limit has passed. what names what found looks for.
func (f *activeFollow) wait(what string, found func() bool) {
	f.x.Helper()
	timeout := time.After(waittest.Limit)
	for problem := ""; ; {
		f.mu.Lock()
		changed, ok, message := f.changed, found(), ""
		if !ok && problem != "" {
			message = fmt.Sprintf("there was no %s; the run printed:\n%s\nand asked: %+v", what, text(f.outputs), f.asked)
		}
		f.mu.Unlock()
		switch {
		case ok:
			return
		case message != "":
			f.x.FailNow(problem, message)
		}
		select {
		case <-changed:
		case <-f.done:
			problem = fmt.Sprintf("the run ended: %+v, %v", f.outcome, f.err)
		case <-timeout:
			problem = "stuck"
		}
	}
}

// waitForLine waits until the run's output contains the line, and returns the outputs so far.
func (f *activeFollow) waitForLine(line string) (outputs []fleet.Output) {
	f.x.Helper()
	f.wait(fmt.Sprintf("output %q", line), func() bool {
		outputs = slices.Clone(f.outputs)
		return strings.Contains(text(outputs), line)
	})
	return outputs
}

// waitForQuestion waits until Follow has reported a question with the id and the status, and returns the question. An empty id
// means any id. If several questions match, waitForQuestion returns the one that was reported last.
func (f *activeFollow) waitForQuestion(id string, want fleet.QuestionStatus) fleet.Question {
	f.x.Helper()
	return f.waitForMatchingQuestion(want, func(q fleet.Question) bool { return id == "" || q.ID == id })
}

// waitForNextQuestion waits until Follow has reported a waiting question other than the one with the id, and returns it.
func (f *activeFollow) waitForNextQuestion(id string) fleet.Question {
	f.x.Helper()
	return f.waitForMatchingQuestion(fleet.QuestionWaiting, func(q fleet.Question) bool { return q.ID != id })
}

func (f *activeFollow) waitForMatchingQuestion(want fleet.QuestionStatus, matches func(fleet.Question) bool) (found fleet.Question) {
	f.x.Helper()
	f.wait("question with the status "+string(want), func() bool {
		for _, q := range slices.Backward(f.asked) {
			if q.Status == want && matches(q) {
				found = q
				return true
			}
		}
		return false
	})
	return found
}

// waitForEnd waits until Follow returns, and returns all outputs and the results of Follow.
func (f *activeFollow) waitForEnd() ([]fleet.Output, fleet.Outcome, error) {
	f.x.Helper()
	f.wait("end of Follow", func() bool {
		select {
		case <-f.done:
			return true
		default:
			return false
		}
	})
	return f.outputs, f.outcome, f.err
}

// waitForOutcome is like waitForEnd, and requires that Follow has not failed.
func (f *activeFollow) waitForOutcome() ([]fleet.Output, fleet.Outcome) {
	f.x.Helper()
	outputs, o, err := f.waitForEnd()
	f.x.NoError(err)
	return outputs, o
}
