package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	fleetv1 "fleet/gen/fleet/v1"
)

// numberText formats the number n, which is in the unit u.
func numberText(n float64, u fleetv1.Shown_Unit) string {
	switch u {
	case fleetv1.Shown_milliseconds:
		return preciseDuration(time.Duration(n * float64(time.Millisecond)))
	case fleetv1.Shown_seconds:
		return preciseDuration(time.Duration(n * float64(time.Second)))
	case fleetv1.Shown_dollars:
		return costText(n)
	case fleetv1.Shown_size:
		return sizeText(n)
	}
	return strconv.FormatFloat(n, 'f', -1, 64)
}

// preciseDuration formats a duration: 12 ms, 3.4 s, 5m10s.
func preciseDuration(d time.Duration) string {
	switch {
	case d < time.Second:
		return strconv.FormatFloat(math.Round(float64(d)/float64(time.Millisecond)), 'f', -1, 64) + " ms"
	case d < time.Minute:
		return strconv.FormatFloat(math.Round(d.Seconds()*10)/10, 'f', -1, 64) + " s"
	}
	return longDuration(d)
}

// costText formats an amount in US dollars, with four decimals below one cent and two above. It returns "" for zero.
func costText(usd float64) string {
	switch {
	case usd <= 0:
		return ""
	case usd < 0.01:
		return fmt.Sprintf("$%.4f", usd)
	}
	return fmt.Sprintf("$%.2f", usd)
}

// dollarsText formats an amount with cents, and with more digits if it has them.
func dollarsText(usd float64) string {
	if usd < 0 {
		return "-" + dollarsText(-usd)
	}
	text := fmt.Sprintf("$%.6f", usd)
	cents := len(text) - 4
	return text[:cents] + strings.TrimRight(text[cents:], "0")
}

// costWithBasis formats a cost in US dollars. It adds how Fleet knows the cost, unless the agent's program has reported it.
func costWithBasis(usd float64, basis string) string {
	text := costText(usd)
	switch basis {
	case "priced":
		return text + inParentheses("from the prices of models")
	case "unknown":
		if text == "" {
			return "unknown: a model has no price"
		}
		return "at least " + text + inParentheses("a model has no price")
	}
	return text
}

// sizeText formats a number of bytes.
func sizeText[N int | int32 | int64 | float64](n N) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%.0f bytes", float64(n))
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}

// shortDuration formats a duration in one unit, and from a year on in two: 42s, 3m, 47h, 12d, 1y30d.
func shortDuration(d time.Duration) string {
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

// timeLeftText formats the time that is left: 45s, 1h, 1h30m, 3d12h. It rounds, so that an hour is still shown as 1h one
// second later.
func timeLeftText(d time.Duration) string {
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
		length time.Duration
		name   string
	}{{day, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}} {
		if n := d / unit.length; n > 0 {
			fmt.Fprintf(&text, "%d%s", n, unit.name)
		}
		d %= unit.length
	}
	return text.String()
}

// longDuration formats a duration: 42s, 3m12s, 2h05m.
func longDuration(d time.Duration) string {
	d = max(d, 0).Truncate(time.Second)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}

// ageText formats how long ago t was. It returns "-" if t is nil.
func (s *session) ageText(t *timestamppb.Timestamp) string {
	if t == nil {
		return "-"
	}
	return shortDuration(s.deps.Now().Sub(t.AsTime()))
}

// timeText formats t with its distance from now, for people at a terminal. It returns "-" if t is nil.
func (s *session) timeText(t *timestamppb.Timestamp) string {
	if t == nil {
		return "-"
	}
	distance := s.ageText(t) + " ago"
	if left := t.AsTime().Sub(s.deps.Now()); left > 0 {
		distance = "in " + shortDuration(left)
	}
	return t.AsTime().UTC().Format(time.RFC3339) + " (" + distance + ")"
}

// elapsedText formats the time between from and to. If to is nil, it counts until now. If from is nil, it returns "-".
func (s *session) elapsedText(from, to *timestamppb.Timestamp) string {
	if from == nil {
		return "-"
	}
	end := s.deps.Now()
	if to != nil {
		end = to.AsTime()
	}
	return longDuration(end.Sub(from.AsTime()))
}
