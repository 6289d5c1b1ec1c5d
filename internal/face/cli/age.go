package cli

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// span formats a duration in one unit, and from a year on in two: 42s, 3m, 47h, 12d, 1y30d.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	switch d = max(d, 0); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 2*day:
		return fmt.Sprintf("%dh", int(d.Hours()))
	case d < 365*day:
		return fmt.Sprintf("%dd", d/day)
	}
	return fmt.Sprintf("%dy%dd", d/(365*day), d%(365*day)/day)
}

// remaining formats the time that is left: 45s, 1h, 1h30m, 3d12h. It rounds, so that an hour is still shown as 1h one
// second later.
func remaining(d time.Duration) string {
	const day = 24 * time.Hour
	switch d = max(d, 0).Round(time.Second); {
	case d >= day:
		d = d.Round(time.Hour)
	case d >= 5*time.Minute:
		d = d.Round(time.Minute)
	}
	if d == 0 {
		return "0s"
	}
	var text strings.Builder
	for _, unit := range []struct {
		of   time.Duration
		name string
	}{{day, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}} {
		if n := d / unit.of; n > 0 {
			fmt.Fprintf(&text, "%d%s", n, unit.name)
		}
		d %= unit.of
	}
	return text.String()
}

// exact formats a duration: 42s, 3m12s, 2h05m.
func exact(d time.Duration) string {
	d = max(d, 0).Truncate(time.Second)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}

// age formats how long ago t was. It returns "-" if t is nil.
func (s *session) age(t *timestamppb.Timestamp) string {
	if t == nil {
		return "-"
	}
	return span(s.deps.Now().Sub(t.AsTime()))
}

// when formats t with its distance from now, for people at a terminal. It returns "-" if t is nil.
func (s *session) when(t *timestamppb.Timestamp) string {
	if t == nil {
		return "-"
	}
	distance := s.age(t) + " ago"
	if left := t.AsTime().Sub(s.deps.Now()); left > 0 {
		distance = "in " + span(left)
	}
	return t.AsTime().UTC().Format(time.RFC3339) + " (" + distance + ")"
}

// took formats the time between from and to. If to is nil, it counts until now. If from is nil, it returns "-".
func (s *session) took(from, to *timestamppb.Timestamp) string {
	if from == nil {
		return "-"
	}
	end := s.deps.Now()
	if to != nil {
		end = to.AsTime()
	}
	return exact(end.Sub(from.AsTime()))
}
