package service

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"fleet/internal/fleet"
)

// The default and the maximum number of steps in a page.
const (
	DefaultSteps = 200
	MaxSteps     = 1000
)

// maxJoinedText is the maximum size of a text that is joined from several events, in bytes.
const maxJoinedText = 16 << 10

// StepsRequest selects steps of a task.
type StepsRequest struct {
	TaskID string
	Cursor string           // only steps after this cursor; empty: from the first one
	Before string           // the last steps before this cursor; "end" for the newest; empty for steps after Cursor
	Limit  int              // 0 means DefaultSteps
	Types  []fleet.StepType // empty means all
}

// stepsEnd is the value of StepsRequest.Before for the newest steps.
const stepsEnd = "end"

// StepPage is a page of the steps of a task, oldest first.
type StepPage struct {
	List []fleet.TaskStep
	More bool // whether steps follow; false if the request has Before
	// Previous is the value of StepsRequest.Before for the earlier steps; 0 if there are none, or if the request has no Before.
	Previous int64
}

// TaskSteps returns a page of the task's steps. It joins the pieces of a text that the agent wrote piece by piece.
func (s *Service) TaskSteps(ctx context.Context, r StepsRequest) (StepPage, error) {
	after, err := parseStepCursor("cursor", r.Cursor)
	if err != nil {
		return StepPage{}, err
	}
	before := int64(0)
	if r.Before != stepsEnd {
		if before, err = parseStepCursor("before", r.Before); err != nil {
			return StepPage{}, err
		}
	}
	reader := stepReader{store: s.store, filter: fleet.EventFilter{Types: fleet.StepEvents}, types: r.Types, limit: min(r.Limit, MaxSteps)}
	if r.Limit == 0 {
		reader.limit = DefaultSteps
	}
	t, err := viewTask(ctx, s, r.TaskID, func(_ fleet.ReadTx, t *fleet.Task) (*fleet.Task, error) { return t, nil })
	if err != nil {
		return StepPage{}, err
	}
	reader.filter.TaskID = t.ID
	if r.Before != "" {
		return reader.before(ctx, before)
	}
	return reader.after(ctx, after)
}

// parseStepCursor returns the Seq that the cursor stands for; 0 if the cursor is empty. field is the name of the cursor in the request.
func parseStepCursor(field, cursor string) (int64, error) {
	if cursor == "" {
		return 0, nil
	}
	seq, err := strconv.ParseInt(cursor, 10, 64)
	if err != nil || seq < 0 {
		return 0, fleet.InvalidField(field, "%s %q is not a cursor: give the cursor of a step or of an answer", field, fleet.Shorten(cursor, 40))
	}
	return seq, nil
}

// stepReader reads the steps of a task from the log of events.
type stepReader struct {
	store  fleet.Store
	filter fleet.EventFilter
	types  []fleet.StepType // empty means all
	limit  int              // maximum number of steps
}

// after returns the first steps after the Seq, at most the limit.
func (r stepReader) after(ctx context.Context, seq int64) (StepPage, error) {
	var out StepPage
	for {
		events, err := r.events(ctx, fleet.EventWindow{After: seq, Limit: watchBatch})
		for _, s := range r.steps(events) {
			if out.join(s) {
				continue
			}
			if len(out.List) == r.limit {
				out.More = true
				return out, nil
			}
			out.List = append(out.List, s)
		}
		if err != nil || len(events) < watchBatch {
			return out, err
		}
		seq = events[len(events)-1].Seq
	}
}

// before returns the last steps before the Seq, at most the limit. A Seq of 0 means the newest steps.
func (r stepReader) before(ctx context.Context, seq int64) (StepPage, error) {
	var steps []fleet.TaskStep
	for len(steps) <= r.limit {
		events, err := r.events(ctx, fleet.EventWindow{Newest: true, Before: seq, Limit: watchBatch})
		if err != nil {
			return StepPage{}, err
		}
		steps = append(r.steps(events), steps...)
		if len(events) < watchBatch {
			break
		}
		seq = events[0].Seq
	}
	var out StepPage
	if n := len(steps) - r.limit; n > 0 {
		steps = steps[n:]
		out.Previous = steps[0].Seq
	}
	for _, s := range steps {
		if !out.join(s) {
			out.List = append(out.List, s)
		}
	}
	return out, nil
}

func (r stepReader) events(ctx context.Context, w fleet.EventWindow) ([]fleet.Event, error) {
	return view(ctx, r.store, func(tx fleet.ReadTx) ([]fleet.Event, error) { return tx.Events(r.filter, w) })
}

// steps returns the steps of r.types that the events report, at most one for each event.
func (r stepReader) steps(events []fleet.Event) []fleet.TaskStep {
	steps := make([]fleet.TaskStep, 0, len(events))
	for i := range events {
		e := &events[i]
		if step := e.Step(); step != nil && (len(r.types) == 0 || slices.Contains(r.types, step.Type)) {
			steps = append(steps, fleet.TaskStep{Seq: e.Seq, Time: e.Time, Text: e.Text, Step: step, Output: e.Type == fleet.EventTaskOutput})
		}
	}
	return steps
}

// join adds the text of the step to the last one if it continues that step's text in the same line, and reports whether it does.
func (s *StepPage) join(next fleet.TaskStep) bool {
	if len(s.List) == 0 {
		return false
	}
	last := &s.List[len(s.List)-1]
	if !next.Output || last.Type != fleet.StepText || last.Parent != "" || last.Agent != next.Agent ||
		strings.HasSuffix(last.Text, "\n") || len(last.Text)+len(next.Text) > maxJoinedText {
		return false
	}
	last.Text, last.Seq = last.Text+next.Text, next.Seq
	return true
}
