package service

import (
	"context"

	"fleet/internal/fleet"
)

// FollowTask waits until the task has ended, or ctx is done, and returns the ended task. Meanwhile it passes the task's
// events after the given seq to sink, which may be nil.
func (s *Service) FollowTask(ctx context.Context, id string, after int64, sink func(fleet.Event) error) (*fleet.Task, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	signal, cancel := s.store.Subscribe()
	defer cancel()
	for {
		var task *fleet.Task
		var events []fleet.Event
		err := s.store.View(ctx, func(tx fleet.ReadTx) (err error) {
			if task, err = s.task(tx, p, id, fleet.AccessView); err != nil || sink == nil {
				return err
			}
			events, err = tx.Events(fleet.EventFilter{TaskID: id}, after, watchBatch)
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, e := range events {
			if err := sink(e); err != nil {
				return nil, err
			}
			after = e.Seq
		}
		switch {
		case len(events) == watchBatch:
			continue
		case !task.Active():
			return task, nil
		}
		if err := s.await(ctx, signal, task, after, sink != nil); err != nil {
			return nil, err
		}
	}
}

// await waits until the task has ended or, if output is set, until the task has a new event.
func (s *Service) await(ctx context.Context, signal <-chan struct{}, t *fleet.Task, after int64, output bool) error {
	fleet.ReleaseSlot(ctx)
	for {
		select {
		case <-signal:
		case <-ctx.Done():
			return ctx.Err()
		}
		ended, err := s.anyChanged(ctx, []*fleet.Task{t}, false)
		if err != nil || ended {
			return err
		}
		if !output {
			continue
		}
		var events []fleet.Event
		if err := s.store.View(ctx, func(tx fleet.ReadTx) (err error) {
			events, err = tx.Events(fleet.EventFilter{TaskID: t.ID}, after, 1)
			return err
		}); err != nil || len(events) > 0 {
			return err
		}
	}
}
