package fleet

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"
)

// ScheduleKind is the kind of the resources that are schedules.
const ScheduleKind ResourceKind = "schedule"

// CronParser parses a cron expression. The function next returns the first tick after a time: the first moment at which clocks in the zone
// show a time of the expression. It returns zero if there is no such tick.
type CronParser func(expr string, zone *time.Location) (next func(after time.Time) time.Time, err error)

// Schedule queues a task at each of its ticks, on behalf of its owner.
type Schedule struct {
	Name     string          `json:"name"`
	Owner    string          `json:"owner"`
	Cron     string          `json:"cron,omitempty"`
	At       time.Time       `json:"at,omitzero"` // the only tick, if it has no cron expression
	TimeZone string          `json:"time_zone"`   // of the cron expression
	OnMissed MissedPolicy    `json:"missed"`
	Overlap  OverlapPolicy   `json:"overlap"`
	Labels   Labels          `json:"labels,omitempty"` // of the tasks, besides their own
	Task     json.RawMessage `json:"task"`             // in the form of the API, which old and new servers can read
	// Place is the place of the task's project on the server that received Task; empty if Task names no project. Another server may
	// handle the ticks, and may have a project of this name too.
	Place  string `json:"place,omitempty"`
	Paused bool   `json:"paused,omitempty"`
	// Kind, Scope and Projects are those of the principal that set Task.
	Kind     PrincipalKind `json:"kind"`
	Scope    Scope         `json:"scope"`
	Projects []string      `json:"projects,omitempty"`

	HandledUntil time.Time `json:"until"`                // the ticks up to this time have been handled
	LastTick     time.Time `json:"last_tick,omitzero"`   // the last tick that Advance has returned
	LastTask     string    `json:"last_task,omitempty"`  // id of the task that was queued last
	LastError    string    `json:"last_error,omitempty"` // why the last tick has queued no task; empty if it has queued one
	Queued       int64     `json:"queued,omitempty"`     // ticks that have queued a task
	Skipped      int64     `json:"skipped,omitempty"`    // ticks without a task because the task of an earlier tick had not ended
	Missed       int64     `json:"late,omitempty"`       // ticks without a task because no server ran at the time
	Failed       int64     `json:"failed,omitempty"`     // ticks whose task could not be queued
	CreatedAt    time.Time `json:"created_at"`
	UpdatedAt    time.Time `json:"updated_at"`
}

// MissedPolicy says what happens to ticks at which no server ran.
type MissedPolicy string

// The values of MissedPolicy.
const (
	MissedSkip   MissedPolicy = "skip"   // nothing
	MissedLatest MissedPolicy = "latest" // the last of them queues a task
	MissedAll    MissedPolicy = "all"    // each of them queues a task
)

// OverlapPolicy says what happens at a tick while the task of the previous tick has not ended.
type OverlapPolicy string

// The values of OverlapPolicy.
const (
	OverlapSkip  OverlapPolicy = "skip"  // nothing
	OverlapQueue OverlapPolicy = "queue" // a task is queued nevertheless
)

// Limits of schedules.
const (
	MaxSchedules    = 1000
	MaxScheduleName = 63               // in bytes
	MaxMissedTicks  = 1000             // if more ticks were missed, the earlier ones queue no tasks
	TickGrace       = 60 * time.Second // a tick that is handled within this time was not missed
)

// The outcomes of a tick.
const (
	TickQueued  = "queued"
	TickSkipped = "skipped"
	TickMissed  = "late"
	TickFailed  = "failed"
)

// ScheduleLabel is the label of the tasks of a schedule, with its name.
const ScheduleLabel = "schedule"

// Key returns the name of the schedule with its owner. No two schedules have the same key.
func (s *Schedule) Key() string { return OwnedKey(s.Name, s.Owner) }

// VisibleTo reports whether the schedule exists for p.
func (s *Schedule) VisibleTo(p Principal) bool { return p.seesOwned(s.Owner, s.Projects) }

// Ticks returns a function that returns the first tick after a time, or zero if there is none. The error is INVALID_ARGUMENT if the
// time zone or the cron expression is not valid.
func (s *Schedule) Ticks(parse CronParser) (next func(after time.Time) time.Time, err error) {
	if s.Cron == "" {
		return func(after time.Time) time.Time {
			if s.At.After(after) {
				return s.At
			}
			return time.Time{}
		}, nil
	}
	zone, err := loadZone(s.TimeZone)
	if err != nil {
		return nil, InvalidField("time_zone", "there is no time zone %q: give a name such as Europe/Berlin", Shorten(s.TimeZone, 60))
	}
	next, err = parse(s.Cron, zone)
	if err != nil {
		return nil, InvalidField("cron", "cron %q: %s", Shorten(s.Cron, 60), err)
	}
	return next, nil
}

// SameTicks reports whether both schedules agree in everything that determines their next tick.
func (s *Schedule) SameTicks(o *Schedule) bool {
	return s.Cron == o.Cron && s.At.Equal(o.At) && s.TimeZone == o.TimeZone && s.Paused == o.Paused && s.HandledUntil.Equal(o.HandledUntil)
}

// Advance handles the ticks up to now. It returns the first tick that queues a task, or zero, and counts the ticks that queue
// no task because no server ran at the time. Call it again until due is false: each call handles at most one tick that queues
// a task, and at most MaxMissedTicks others.
func (s *Schedule) Advance(next func(after time.Time) time.Time, now time.Time) (tick time.Time, due bool) {
	if s.Paused {
		return time.Time{}, false
	}
	var ticks []time.Time
	for t := next(s.HandledUntil); !t.IsZero() && !t.After(now) && len(ticks) <= MaxMissedTicks; t = next(t) {
		ticks = append(ticks, t)
	}
	switch {
	case len(ticks) == 0:
		return time.Time{}, false
	case len(ticks) > MaxMissedTicks:
		s.drop(ticks[:MaxMissedTicks])
		return time.Time{}, true
	case s.OnMissed == MissedLatest:
		s.drop(ticks[:len(ticks)-1])
		tick = ticks[len(ticks)-1]
	case s.OnMissed == MissedSkip:
		first := slices.IndexFunc(ticks, func(t time.Time) bool { return now.Sub(t) < TickGrace })
		if first < 0 {
			s.drop(ticks)
			return time.Time{}, true
		}
		s.drop(ticks[:first])
		tick = ticks[first]
	default:
		tick = ticks[0]
	}
	s.HandledUntil, s.LastTick = tick, tick
	return tick, true
}

// drop counts the ticks in Missed and marks them as handled.
func (s *Schedule) drop(ticks []time.Time) {
	if len(ticks) > 0 {
		s.Missed += int64(len(ticks))
		s.HandledUntil = ticks[len(ticks)-1]
	}
}

// Validate sets the defaults and returns the result of Ticks. The error is INVALID_ARGUMENT if a value of the schedule is not valid.
func (s *Schedule) Validate(parse CronParser) (next func(after time.Time) time.Time, err error) {
	s.TimeZone, s.OnMissed, s.Overlap = cmp.Or(s.TimeZone, "UTC"), cmp.Or(s.OnMissed, MissedLatest), cmp.Or(s.Overlap, OverlapSkip)
	switch {
	case len(s.Name) > MaxScheduleName || !namePattern.MatchString(s.Name):
		return nil, InvalidField("name", "the schedule's name is %q: use 1 to %d letters, digits and single hyphens between them", Shorten(s.Name, 80), MaxScheduleName)
	case s.Cron == "" && s.At.IsZero():
		return nil, InvalidField("cron", `cron or at is required: give a cron expression such as "0 3 * * *", or one time`)
	case s.Cron != "" && !s.At.IsZero():
		return nil, InvalidField("at", "cron and at cannot be used together: give one of them")
	case s.OnMissed != MissedSkip && s.OnMissed != MissedLatest && s.OnMissed != MissedAll:
		return nil, InvalidField("missed", "missed is %q: give skip, latest or all", Shorten(string(s.OnMissed), 60))
	case s.Overlap != OverlapSkip && s.Overlap != OverlapQueue:
		return nil, InvalidField("overlap", "overlap is %q: give skip or queue", Shorten(string(s.Overlap), 60))
	}
	if err := s.Labels.Validate("labels"); err != nil {
		return nil, err
	}
	return s.Ticks(parse)
}
