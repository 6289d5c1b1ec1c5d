package service

import (
	"context"
	"errors"
	"unicode/utf8"

	"fleet/internal/fleet"
)

// Sizes of a page of raw output, in bytes.
const (
	DefaultOutputSize = 64 << 10
	MaxOutputSize     = 1 << 20
)

// OutputRequest selects a part of a task's raw output.
type OutputRequest struct {
	TaskID string
	Offset int64
	Limit  int // in bytes; 0 means DefaultOutputSize
	Tail   int // if positive: the last bytes of the output, this many and at most Limit; Offset is then ignored
}

// TaskOutput returns a part of the raw output of the task's last run, and whether more follows. It does not split UTF-8
// characters. The error is OUTPUT_NOT_FOUND if the output is not kept.
func (s *Service) TaskOutput(ctx context.Context, r OutputRequest) (page fleet.OutputPage, more bool, err error) {
	var t *fleet.Task
	a, err := viewTask(ctx, s, r.TaskID, func(tx fleet.ReadTx, found *fleet.Task) (*fleet.Agent, error) {
		t = found
		return tx.Agent(t.AgentUID)
	})
	if err != nil {
		return fleet.OutputPage{}, false, err
	}
	errMissing := func(why string) error {
		return fleet.Errorf(fleet.ReasonOutputNotFound, "the raw output of the task %s is not available: %s", t.ID, why).With("task_id", t.ID)
	}
	switch {
	case t.DispatchedAt.IsZero():
		return fleet.OutputPage{}, false, errMissing("its agent has not begun it")
	case !s.places.Of(a).Traits().SupportsOutput:
		return fleet.OutputPage{}, false, errMissing("the place of its agent does not keep raw output")
	}
	limit := min(r.Limit, MaxOutputSize)
	if r.Limit == 0 {
		limit = DefaultOutputSize
	}
	from := r.Offset
	if r.Tail > 0 {
		limit = min(limit, r.Tail)
		from = -int64(limit)
	}
	page, err = s.places.Of(a).Connect(*a).Output(ctx, t.Run(), from, limit)
	if e, ok := errors.AsType[*fleet.Error](err); ok {
		switch e.Reason {
		case fleet.ReasonOutputNotFound, fleet.ReasonTaskNotFound, fleet.ReasonUnimplemented:
			err = errMissing(e.Message)
		}
	}
	if err != nil {
		return fleet.OutputPage{}, false, err
	}
	if r.Tail > 0 || page.Offset > r.Offset { // the caller did not choose the beginning
		n := brokenStart(page.Data)
		page.Data, page.Offset = page.Data[n:], page.Offset+int64(n)
	}
	if more = page.Offset+int64(len(page.Data)) < page.Size; more || t.Active() {
		if whole := withoutBrokenEnd(page.Data); len(whole) > 0 {
			page.Data = whole
		}
	}
	return page, more, nil
}

// brokenStart returns how many bytes at the start of b are the rest of a UTF-8 character that began before b.
func brokenStart(b []byte) int {
	for i := range min(len(b), utf8.UTFMax) {
		if utf8.RuneStart(b[i]) {
			return i
		}
	}
	return 0
}

// withoutBrokenEnd returns b without the beginning of a UTF-8 character that continues after b.
func withoutBrokenEnd(b []byte) []byte {
	for i := len(b) - 1; i >= 0 && i > len(b)-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return b[:i]
			}
			break
		}
	}
	return b
}
