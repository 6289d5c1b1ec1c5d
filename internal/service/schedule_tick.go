package service

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"time"

	"fleet/internal/fleet"
)

// cachedTick is the next tick of a schedule. It is cached because Dispatch would otherwise compute it after each change of the fleet.
type cachedTick struct {
	schedule *fleet.Schedule // as it was when next was computed
	next     time.Time       // zero if there is none; if places have not answered, when the tick is tried again
}

// queueDueSchedules queues the tasks of schedules that are due. It returns the time at which the next schedule is due; zero if there is
// none.
func (s *Service) queueDueSchedules(ctx context.Context) (next time.Time, err error) {
	if s.readTask == nil {
		return time.Time{}, nil
	}
	now := s.now()
	known := s.nextTicks
	s.nextTicks = map[string]cachedTick{}
	for _, sched := range s.queue.Schedules() {
		tick, ok := known[sched.Key()]
		if !ok || !tick.schedule.SameTicks(sched) {
			tick = cachedTick{sched, s.nextTick(sched)}
		}
		if due := !tick.next.IsZero() && !tick.next.After(now); due {
			err := s.runTick(ctx, sched)
			switch {
			case err == nil:
				continue // its event changes the queue, so Dispatch is called again
			case fleet.ReasonOf(err) != fleet.ReasonBackendUnavailable || ctx.Err() != nil:
				return time.Time{}, err
			}
			s.log.WarnContext(ctx, "a schedule cannot queue its task yet, trying again", slog.String("schedule", sched.Name), slog.String("owner", sched.Owner), slog.Any("error", err))
			tick.next = s.now().Add(dispatchRetryDelay)
		}
		s.nextTicks[sched.Key()] = tick
		next = sooner(next, tick.next)
	}
	return next, nil
}

// runTick handles the first due tick of the schedule. The task and the tick are written in one transaction. If the task cannot be
// queued, runTick records why and returns nil. If a place does not answer, the tick stays due, and the error is BACKEND_UNAVAILABLE.
func (s *Service) runTick(ctx context.Context, sched *fleet.Schedule) error {
	p, err := s.withLastGroups(ctx, fleet.Principal{Name: sched.Owner, Kind: sched.Kind, Scope: sched.Scope, Projects: sched.Projects})
	if err != nil {
		return err
	}
	ownerCtx := fleet.WithPrincipal(ctx, p)
	r, err := s.readTask(sched.Task)
	if err != nil {
		err = fleet.Errorf(fleet.ReasonInvalidArgument, "its task cannot be read: change it with update_schedule").WithCause(err)
	}
	var to assignee
	if err == nil {
		r.Labels = scheduledLabels(sched, r.Labels)
		if sched.Place != "" && !strings.HasPrefix(strings.ToLower(r.Project), strings.ToLower(sched.Place)+"/") {
			r.Project = sched.Place + "/" + r.Project
		}
		err = s.askPlaces(ownerCtx, r.Project, func(ctx context.Context) (err error) {
			to, err = s.checkScheduledTask(ctx, p, r)
			return err
		})
	}
	handle := func(refusal error) error {
		var missed int
		var outcome string
		err := s.updateForDispatch(ctx, func(tx fleet.Tx) (err error) {
			missed, outcome, err = s.advance(tx, sched, refusal, func() (*fleet.Task, error) { return s.queueTask(ownerCtx, tx, p, to, r) })
			return err
		})
		if err == nil && missed > 0 {
			s.cfg.OnTicks(fleet.TickMissed, missed)
		}
		if err == nil && outcome != "" {
			s.cfg.OnTicks(outcome, 1)
		}
		return err
	}
	if err == nil {
		err = handle(nil)
	}
	if reason := fleet.ReasonOf(err); err == nil || reason == fleet.ReasonInternal || reason == fleet.ReasonBackendUnavailable || ctx.Err() != nil {
		return err
	}
	return handle(err) // the task cannot be queued, which is recorded
}

// advance handles the first due tick of the schedule. It does nothing if the stored schedule is not the expected one. refusal is why the
// task cannot be queued; nil if no reason is known. add queues the task. advance returns the number of ticks that it has recorded
// as missed, and the outcome of the due tick; "" if there is none.
func (s *Service) advance(tx fleet.Tx, expected *fleet.Schedule, refusal error, add func() (*fleet.Task, error)) (missed int, outcome string, err error) {
	sched, err := s.schedules().read(tx, expected.Key())
	if err != nil || sched == nil || !reflect.DeepEqual(sched, expected) {
		return 0, "", err // the event of the change makes the queue read it again
	}
	next, err := sched.Ticks(s.cfg.Cron)
	if err != nil {
		return 0, "", err
	}
	before := sched.Missed
	tick, due := sched.Advance(next, s.now())
	if !due {
		return 0, "", nil
	}
	missed = int(sched.Missed - before)
	if tick.IsZero() {
		return missed, "", s.schedules().put(tx, sched, fmt.Sprintf("has missed %d ticks", missed))
	}
	at := tick.UTC().Format("2006-01-02 15:04 MST")
	last, err := unfinishedTask(tx, sched)
	switch {
	case err != nil:
		return 0, "", err
	case last != nil && sched.Overlap == fleet.OverlapSkip:
		sched.Skipped++
		return missed, fleet.TickSkipped, s.schedules().put(tx, sched, fmt.Sprintf("queues no task for %s, because %s is %s", at, last.ID, last.Status))
	case refusal != nil:
		sched.Failed++
		sched.LastError = fleet.PublicMessage(refusal)
		return missed, fleet.TickFailed, s.schedules().put(tx, sched, fmt.Sprintf("could not queue its task for %s: %s", at, sched.LastError))
	}
	task, err := add()
	if err != nil {
		return 0, "", err
	}
	sched.Queued++
	sched.LastTask, sched.LastError = task.ID, ""
	return missed, fleet.TickQueued, s.schedules().put(tx, sched, fmt.Sprintf("has queued the task %s for %s", task.ID, at))
}

// unfinishedTask returns the task that the schedule has queued last; nil if there is none, or it has ended or was deleted.
func unfinishedTask(tx fleet.ReadTx, sched *fleet.Schedule) (*fleet.Task, error) {
	if sched.LastTask == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	t, err := tx.Task(sched.LastTask)
	if err != nil || t == nil || t.Status.Ended() {
		return nil, err
	}
	return t, nil
}

// taskReader reads the task of a schedule from ScheduledTask.JSON.
type taskReader = func(json.RawMessage) (QueueTaskRequest, error)

// checkScheduledTask checks the task of a schedule, and returns the assignee that the task would have now.
func (s *Service) checkScheduledTask(ctx context.Context, p fleet.Principal, r QueueTaskRequest) (to assignee, err error) {
	if err := s.checkQueueRequest(r); err != nil {
		return to, err
	}
	return s.findAssignee(ctx, p, r)
}
