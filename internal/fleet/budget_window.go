package fleet

import (
	"fmt"
	"time"
)

// loadZone returns the time zone with the name. It refuses Local, the server's own zone, because no budget or schedule may depend on it.
func loadZone(name string) (*time.Location, error) {
	if name == "Local" {
		return nil, fmt.Errorf("unknown time zone %s", name)
	}
	return time.LoadLocation(name)
}

// WindowAt returns the budget's window that contains the time now; end is the first moment after it. The window of WindowNone
// begins in 1970, and its end is the zero time.
func (b *Budget) WindowAt(now time.Time) (begin, end time.Time) {
	loc, err := loadZone(b.TimeZone)
	if err != nil { // the zone was known when the budget was set
		loc = time.UTC
	}
	y, m, d := now.In(loc).Date()
	switch b.Window {
	case WindowDay:
		return dayBegin(y, m, d, loc), dayBegin(y, m, d+1, loc)
	case WindowWeek:
		monday := d - (int(now.In(loc).Weekday())+6)%7
		return dayBegin(y, m, monday, loc), dayBegin(y, m, monday+7, loc)
	case WindowMonth:
		return dayBegin(y, m, 1, loc), dayBegin(y, m+1, 1, loc)
	}
	return time.Unix(0, 0).UTC(), time.Time{}
}

// dayBegin returns the first moment of the day. Where the clock changes at midnight, that is not always 00:00, and 00:00 may
// occur twice.
func dayBegin(y int, m time.Month, d int, loc *time.Location) time.Time {
	y, m, d = time.Date(y, m, d, 12, 0, 0, 0, time.UTC).Date()
	onDay := func(t time.Time) bool { ty, tm, td := t.Date(); return ty == y && tm == m && td == d }
	t := time.Date(y, m, d, 0, 0, 0, 0, loc)
	if !onDay(t) { // the clock skips midnight
		_, t = t.ZoneBounds()
		return t.UTC()
	}
	if change, _ := t.ZoneBounds(); !change.IsZero() {
		_, offsetBefore := change.Add(-1).Zone()
		_, offsetAfter := t.Zone()
		first := t.Add(-time.Duration(offsetBefore-offsetAfter) * time.Second)
		if first.Before(change) && first.Before(t) && onDay(first) {
			t = first
		}
	}
	return t.UTC()
}
