package service

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"fleet/internal/fleet"
)

// These are numbers of steps in a page.
const (
	DefaultSteps = 200
	MaxSteps     = 1000
)

// maxJoined limits a text that is joined from several events, in bytes.
const maxJoined = 16 << 10

// StepsRequest selects steps of a task.
type StepsRequest struct {
	TaskID string
	Cursor string // continue after this step; empty for the first
	Limit  int    // 0 means DefaultSteps
	Types  []fleet.StepType
}

// TaskSteps returns steps of the task, oldest first, and whether more follow. It joins the pieces of a text that the agent
// wrote piece by piece.
func (s *Service) TaskSteps(ctx context.Context, r StepsRequest) (steps []fleet.TaskStep, more bool, err error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, false, err
	}
	if r.TaskID == "" {
		return nil, false, errNoTaskID()
	}
	after := int64(0)
	if r.Cursor != "" {
		if after, err = strconv.ParseInt(r.Cursor, 10, 64); err != nil || after < 0 {
			return nil, false, fleet.Invalid(fleet.ReasonInvalidArgument, "cursor", "cursor %q is not a cursor: give the cursor of a step or the next_cursor of an answer", fleet.Shorten(r.Cursor, 40))
		}
	}
	limit := min(r.Limit, MaxSteps)
	if r.Limit == 0 {
		limit = DefaultSteps
	}
	filter := fleet.EventFilter{Types: fleet.StepEvents}
	err = s.store.View(ctx, func(tx fleet.ReadTx) error {
		t, err := s.task(tx, p, r.TaskID, fleet.AccessView)
		if err != nil {
			return err
		}
		filter.TaskID = t.ID
		return nil
	})
	for err == nil {
		var events []fleet.Event
		err = s.store.View(ctx, func(tx fleet.ReadTx) (err error) {
			events, err = tx.Events(filter, fleet.EventWindow{After: after, Limit: watchBatch})
			return err
		})
		for i := range events {
			e := &events[i]
			step := e.Step()
			if step == nil || len(r.Types) > 0 && !slices.Contains(r.Types, step.Type) {
				continue
			}
			if n := len(steps) - 1; n >= 0 && continues(steps[n], e, step) {
				steps[n].Text, steps[n].Seq = steps[n].Text+e.Text, e.Seq
				continue
			}
			if len(steps) == limit {
				return steps, true, nil
			}
			steps = append(steps, fleet.TaskStep{Seq: e.Seq, Time: e.Time, Text: e.Text, Step: step})
		}
		if len(events) < watchBatch {
			return steps, false, err
		}
		after = events[len(events)-1].Seq
	}
	return nil, false, err
}

// continues reports whether the event continues the text of the step, which ends within a line.
func continues(last fleet.TaskStep, e *fleet.Event, step *fleet.Step) bool {
	return e.Type == fleet.EventTaskOutput && last.Type == fleet.StepText && last.Parent == "" && last.Agent == step.Agent &&
		!strings.HasSuffix(last.Text, "\n") && len(last.Text)+len(e.Text) <= maxJoined
}
