package service

import (
	"context"
	"time"

	"fleet/internal/fleet"
)

const (
	// followFailureLimit is how long the store may fail while FollowTask waits. A task should not seem to have failed because
	// the store restarts.
	followFailureLimit = 30 * time.Second
	// followRetryDelay is how long FollowTask waits after a failure of the store before it tries again.
	followRetryDelay = 500 * time.Millisecond
)

// FollowTask waits until the task has ended, and returns the ended task. Meanwhile it passes the task's events with a Seq greater
// than after to sink, which may be nil. It returns early with the error of sink or ctx, or with BACKEND_UNAVAILABLE if the store fails
// for longer than followFailureLimit.
func (s *Service) FollowTask(ctx context.Context, id string, after int64, sink func(fleet.Event) error) (*fleet.Task, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	signal, cancel := s.store.Subscribe()
	defer cancel()
	var failingSince time.Time // since when the store has failed; zero if it works
	for {
		task, events, err := s.taskEvents(ctx, p, id, after, sink != nil)
		for _, e := range events {
			if err := sink(e); err != nil {
				return nil, err
			}
			after = e.Seq
		}
		if err == nil {
			failingSince = time.Time{}
			switch {
			case len(events) == watchBatch:
				continue
			case !task.Active():
				return task, nil
			}
			err = s.awaitChange(ctx, signal, task, after, sink != nil)
		}
		switch {
		case err == nil:
			continue
		case fleet.ReasonOf(err) != fleet.ReasonBackendUnavailable, !failingSince.IsZero() && time.Since(failingSince) > followFailureLimit:
			return nil, err
		case failingSince.IsZero():
			failingSince = time.Now()
		}
		select {
		case <-time.After(followRetryDelay):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// taskEvents returns the task and, if withEvents is set, at most watchBatch of its events after the Seq.
func (s *Service) taskEvents(ctx context.Context, p fleet.Principal, id string, after int64, withEvents bool) (task *fleet.Task, events []fleet.Event, err error) {
	err = s.store.View(ctx, func(tx fleet.ReadTx) (err error) {
		events = nil
		if task, err = s.task(tx, p, id, fleet.AccessView); err != nil || !withEvents {
			return err
		}
		events, err = tx.Events(fleet.EventFilter{TaskID: task.ID}, fleet.EventWindow{After: after, Limit: watchBatch})
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return task, events, nil
}

// awaitChange waits until the task has ended or, if withEvents is set, has an event after the Seq. signal is a subscription to the
// store.
func (s *Service) awaitChange(ctx context.Context, signal <-chan struct{}, t *fleet.Task, after int64, withEvents bool) error {
	fleet.ReleaseSlot(ctx)
	for {
		select {
		case <-signal:
		case <-ctx.Done():
			return ctx.Err()
		}
		ended, err := s.anyChanged(ctx, []*fleet.Task{t}, WaitCondition{})
		if err != nil || ended {
			return err
		}
		if !withEvents {
			continue
		}
		events, err := view(ctx, s.store, func(tx fleet.ReadTx) ([]fleet.Event, error) {
			return tx.Events(fleet.EventFilter{TaskID: t.ID}, fleet.EventWindow{After: after, Limit: 1})
		})
		if err != nil || len(events) > 0 {
			return err
		}
	}
}
