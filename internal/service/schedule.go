package service

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"fleet/internal/fleet"
)

// ScheduledTask is the request that a schedule makes at each tick.
type ScheduledTask struct {
	QueueTaskRequest
	JSON json.RawMessage `json:"-"` // the same request, in the form that the function set by SetTaskReader reads
}

// SetTaskReader sets the function that reads the tasks of schedules. Without it, schedules queue nothing. Call it before the first
// Dispatch.
func (s *Service) SetTaskReader(read taskReader) { s.readTask = read }

// CreateScheduleRequest describes a schedule.
type CreateScheduleRequest struct {
	fleet.Schedule // the values besides the owner and the task
	Task           ScheduledTask
	RequestID      string `json:"-"`
}

// ScheduleView is a schedule and its next tick.
type ScheduleView struct {
	fleet.Schedule
	NextTick time.Time // zero if there is none
}

// CreateSchedule adds a schedule of the caller. Only later ticks count. The error is SCHEDULE_EXISTS if the caller has a schedule of
// this name.
func (s *Service) CreateSchedule(ctx context.Context, r CreateScheduleRequest) (*ScheduleView, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	now := s.now()
	c := Call{Method: "CreateSchedule", RequestID: r.RequestID, Body: []any{r.Schedule, r.Task.QueueTaskRequest}}
	sched := r.Schedule
	if _, err := sched.Validate(s.cfg.Cron); err != nil {
		return nil, err
	}
	sched.Owner, sched.HandledUntil, sched.CreatedAt = p.Name, now, now
	if !sched.At.IsZero() && !sched.At.After(now) {
		c.Refusal = fleet.InvalidField("at", "at is in the past: give a later time")
	} else {
		c.Refusal = s.setScheduleTask(ctx, p, &sched, r.Task)
	}
	return s.schedules().change(ctx, c, sched.Key(), func(tx fleet.Tx, old *fleet.Schedule) (*fleet.Schedule, string, error) {
		all, err := tx.Resources(fleet.ResourceFilter{Kind: fleet.ScheduleKind})
		switch {
		case err != nil:
			return nil, "", err
		case old != nil:
			return nil, "", fleet.Errorf(fleet.ReasonScheduleExists, "a schedule %q already exists", sched.Name).With("schedule", sched.Name).With("field", "name").Next("choose another name")
		case len(all) >= fleet.MaxSchedules:
			return nil, "", fleet.LimitReached("schedules", "the fleet has", int64(len(all)), fleet.MaxSchedules, "schedules", "{delete_schedule} deletes one")
		}
		return &sched, "was created by " + p.Name, nil
	})
}

// setScheduleTask checks the task and sets the fields of the schedule that depend on it. The schedule queues the task with the rights of p.
func (s *Service) setScheduleTask(ctx context.Context, p fleet.Principal, sched *fleet.Schedule, t ScheduledTask) error {
	refuse := func(field, format string) error {
		return fleet.InvalidField("task", format, "task."+field)
	}
	switch e := t.Entry; {
	case len(t.JSON) == 0:
		return fleet.InvalidField("task", "task is required: give the fields of queue_task")
	case t.RequestID != "":
		return refuse("request_id", "%s is for one task, and the schedule queues one at each tick: leave it out")
	case !e.NotBefore.IsZero():
		return refuse("not_before", "%s is one time, and the schedule has many: leave it out")
	case !e.Expires.IsZero():
		return refuse("expires", "%s is one time, and the schedule has many: leave it out")
	case len(e.Dependencies) > 0:
		return refuse("depends_on", "%s names tasks of one time, and the schedule has many: leave it out")
	case len(t.Attachments) > 0:
		return refuse("attachments", "%s cannot be kept in a schedule: leave them out")
	}
	sched.Task, sched.Kind, sched.Scope, sched.Projects = t.JSON, p.Kind, p.Scope, p.Projects
	r := t.QueueTaskRequest
	r.Labels = scheduledLabels(sched, r.Labels)
	if err := r.Labels.Validate("labels"); err != nil {
		return err
	}
	to, err := s.checkScheduledTask(ctx, p, r)
	switch {
	case err != nil || r.Project == "":
	case to.draft != nil:
		sched.Place = to.draft.place.Name
	default:
		sched.Place = to.target.Place
	}
	if e, ok := errors.AsType[*fleet.Error](err); ok && e.Field != "" {
		inTask := *e
		inTask.Field = "task." + e.Field
		return inTask.With("field", inTask.Field)
	}
	return err
}

// scheduledLabels returns the labels of the tasks of the schedule. taskLabels are those of the task's request.
func scheduledLabels(sched *fleet.Schedule, taskLabels fleet.Labels) fleet.Labels {
	return sched.Labels.With(taskLabels).With(fleet.Labels{fleet.ScheduleLabel: sched.Name})
}

// UpdateScheduleRequest says what changes about a schedule. A nil field changes nothing.
type UpdateScheduleRequest struct {
	Name           string // NAME, or NAME@OWNER
	Cron, TimeZone *string
	At             *time.Time
	Missed         *fleet.MissedPolicy
	Overlap        *fleet.OverlapPolicy
	Paused         *bool
	Labels         fleet.Labels   // to add or to change
	RemoveLabels   []string       // keys
	Task           *ScheduledTask `json:"-"`
	RequestID      string         `json:"-"`
}

// UpdateSchedule changes a schedule. Ticks that were missed before the change queue no tasks. Only the owner can change the task.
func (s *Service) UpdateSchedule(ctx context.Context, r UpdateScheduleRequest) (*ScheduleView, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	if r.Cron != nil && r.At != nil {
		return nil, fleet.InvalidField("at", "cron and at cannot be used together: give one of them")
	}
	given := fleet.Schedule{Name: "given", At: s.now()}
	if r.Cron != nil {
		given.Cron, given.At = *r.Cron, time.Time{}
	}
	setIfGiven(&given.TimeZone, r.TimeZone)
	setIfGiven(&given.OnMissed, r.Missed)
	setIfGiven(&given.Overlap, r.Overlap)
	given.Labels = r.Labels
	if _, err := given.Validate(s.cfg.Cron); err != nil {
		return nil, err
	}
	if err := scheduledLabels(&given, nil).Validate("labels"); err != nil {
		return nil, err
	}
	if len(r.RemoveLabels) > fleet.MaxLabels {
		return nil, fleet.InvalidField("remove_labels", "remove_labels has %d keys: give at most %d", len(r.RemoveLabels), fleet.MaxLabels)
	}
	c := Call{Method: "UpdateSchedule", RequestID: r.RequestID, Body: r}
	old, err := s.schedules().find(ctx, p, r.Name)
	if err != nil {
		c.Refusal, old = err, &fleet.Schedule{}
	}
	withNewTask := fleet.Schedule{Name: old.Name} // has the fields that depend on the new task
	var taskErr error
	if r.Task != nil {
		c.Body = []any{r, r.Task.QueueTaskRequest}
		taskErr = s.setScheduleTask(ctx, p, &withNewTask, *r.Task)
	}
	return s.schedules().change(ctx, c, old.Key(), func(_ fleet.Tx, sched *fleet.Schedule) (*fleet.Schedule, string, error) {
		switch {
		case sched == nil || !sched.VisibleTo(p):
			return nil, "", s.schedules().errNotFound(r.Name)
		case r.Task != nil && p.Name != sched.Owner:
			return nil, "", fleet.Errorf(fleet.ReasonPermissionDenied, "the schedule %q queues tasks of %s, who alone can change its task", sched.Name, sched.Owner).With("schedule", sched.Name).
				Next("pause it with {update_schedule}, and create one of your own with {create_schedule}")
		case taskErr != nil:
			return nil, "", taskErr
		}
		now := s.now()
		if r.Cron != nil || r.At != nil {
			sched.Cron, sched.At = "", time.Time{}
		}
		setIfGiven(&sched.Cron, r.Cron)
		setIfGiven(&sched.At, r.At)
		setIfGiven(&sched.TimeZone, r.TimeZone)
		setIfGiven(&sched.OnMissed, r.Missed)
		setIfGiven(&sched.Overlap, r.Overlap)
		setIfGiven(&sched.Paused, r.Paused)
		if r.Task != nil {
			sched.Task, sched.Place, sched.Kind, sched.Scope, sched.Projects, sched.LastError = withNewTask.Task, withNewTask.Place, withNewTask.Kind, withNewTask.Scope, withNewTask.Projects, ""
		}
		sched.Labels = sched.Labels.With(r.Labels, r.RemoveLabels...)
		sched.HandledUntil = now
		if _, err := sched.Validate(s.cfg.Cron); err != nil {
			return nil, "", err
		}
		if r.At != nil && !r.At.After(now) {
			return nil, "", fleet.InvalidField("at", "at is in the past: give a later time")
		}
		return sched, "was changed by " + p.Name, nil
	})
}

// DeleteSchedule deletes the schedule with the reference NAME or NAME@OWNER. It does not stop or delete tasks that the schedule has queued.
func (s *Service) DeleteSchedule(ctx context.Context, ref, requestID string) error {
	return s.schedules().delete(ctx, Call{Method: "DeleteSchedule", RequestID: requestID, Body: ref}, ref)
}

// ListSchedules returns a page of the matching schedules that the caller may see, sorted by name, their total number, and the cursor of
// the next page.
func (s *Service) ListSchedules(ctx context.Context, r ListOwnedRequest) (schedules []*ScheduleView, total int, next string, err error) {
	selector, err := fleet.ParseSelector("selector", r.Selector)
	if err != nil {
		return nil, 0, "", err
	}
	return s.schedules().page(ctx, r.PageRequest, defaultSchedules, func(d *fleet.Schedule) bool { return selector.Matches(d.Labels) })
}

// defaultSchedules is how many schedules ListSchedules returns by default.
const defaultSchedules = 100

// ShowSchedule returns the schedule with the reference NAME or NAME@OWNER.
func (s *Service) ShowSchedule(ctx context.Context, ref string) (*ScheduleView, error) {
	return s.schedules().show(ctx, ref)
}

// nextTick returns the next tick of the schedule. The tick is in the past if it is due and was not handled yet. It is zero if there is
// none, or if the schedule is paused.
func (s *Service) nextTick(sched *fleet.Schedule) time.Time {
	next, err := sched.Ticks(s.cfg.Cron)
	if err != nil || sched.Paused {
		return time.Time{}
	}
	return next(sched.HandledUntil)
}
