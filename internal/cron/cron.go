// Package cron says when cron expressions are due. App gives it to the core, which imports no other module.
package cron

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // the machine may have no files of time zones

	"github.com/adhocore/gronx"
)

// plainPart matches a part of a field whose names of months and days were replaced by numbers. Package gronx also accepts other
// forms: cron programs disagree about the meaning of L and W, and gronx ignores the end of 1-5-9 and of */5/7.
var plainPart = regexp.MustCompile(`^(\*|[0-9]+(-[0-9]+)?)(/[0-9]+)?$`)

// leapDay is the time after which Parse looks for a tick, to refuse expressions that are never due. An expression that is
// due only on 29 February has a tick four years later.
var leapDay = time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)

// tags are the expressions that stand for five fields.
var tags = []string{"@hourly", "@daily", "@weekly", "@monthly", "@yearly"}

// Parse implements fleet.CronParser. An expression has five fields, or is one of the tags.
//
// The expression matches the times that clocks in the zone show. A matching time is one tick. If clocks show it twice because they
// are put back, the tick is the first of the two moments. All matching times that clocks skip because they are put forward are one
// tick together, at the moment of the change.
func Parse(expr string, zone *time.Location) (next func(after time.Time) time.Time, err error) {
	fields := strings.Fields(expr)
	if len(fields) != 5 && (len(fields) != 1 || !slices.Contains(tags, fields[0])) {
		return nil, fmt.Errorf("it has %d fields: give minute, hour, day of the month, month and day of the week, or one of %s", len(fields), strings.Join(tags, ", "))
	}
	expr = strings.Join(fields, " ")
	segments, err := gronx.Segments(expr)
	if err != nil {
		return nil, err
	}
	for pos, segment := range segments {
		for part := range strings.SplitSeq(segment, ",") {
			checker := &gronx.SegmentChecker{} // CheckDue ignores the parts after one that is due, so each part is checked separately
			checker.SetRef(leapDay)
			values, _, _ := strings.Cut(part, "/") // gronx does not check the bounds of the start if there is a step
			_, valuesErr := checker.CheckDue(values, pos)
			if _, err := checker.CheckDue(part, pos); err != nil || valuesErr != nil || !plainPart.MatchString(part) {
				return nil, fmt.Errorf("%q cannot be read", part)
			}
		}
	}
	// gronx gets only times in UTC, where clocks never skip or repeat a time.
	nextTick := func(after time.Time) time.Time {
		t, err := gronx.NextTickAfter(expr, after, false)
		if err != nil {
			return time.Time{}
		}
		return t
	}
	if nextTick(leapDay).IsZero() {
		return nil, errors.New("there is no such day")
	}
	return func(after time.Time) time.Time {
		local := after.In(zone)
		for at := time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), local.Minute(), local.Second(), 0, time.UTC); ; {
			if at = nextTick(at); at.IsZero() {
				return at
			}
			if t := firstMoment(at, zone); t.After(after) {
				return t.UTC()
			}
		}
	}, nil
}

// firstMoment returns the first moment at which clocks in the zone show the time that clockTime has in UTC. If they skip that
// time, it returns the moment at which they are put forward.
func firstMoment(clockTime time.Time, zone *time.Location) time.Time {
	t := time.Date(clockTime.Year(), clockTime.Month(), clockTime.Day(), clockTime.Hour(), clockTime.Minute(), 0, 0, zone)
	start, end := t.ZoneBounds()
	_, offset := t.Zone()
	switch local := time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), 0, 0, time.UTC); {
	case local.After(clockTime): // the clocks skip the time, and t is after the change
		return start
	case local.Before(clockTime): // the clocks skip the time, and t is before the change
		return end
	case start.IsZero():
		return t
	}
	_, offsetBefore := start.Add(-time.Second).Zone()
	if first := t.Add(-time.Duration(offsetBefore-offset) * time.Second); first.Before(start) && offsetBefore > offset {
		return first
	}
	return t
}
