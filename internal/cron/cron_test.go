package cron

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// drawField draws a field of an expression, and returns it with the values that it matches.
func drawField(rt *rapid.T, name string, low, high int) (string, []int) {
	var all []int
	for i := low; i <= high; i++ {
		all = append(all, i)
	}
	from := rapid.IntRange(low, high).Draw(rt, name)
	to := rapid.IntRange(from, high).Draw(rt, name+" to")
	step := rapid.IntRange(1, 7).Draw(rt, name+" step")
	every := func(from, to int) (out []int) {
		for i := from; i <= to; i += step {
			out = append(out, i)
		}
		return out
	}
	switch rapid.IntRange(0, 5).Draw(rt, name+" form") {
	case 0:
		return strconv.Itoa(from), []int{from}
	case 1:
		return fmt.Sprintf("%d-%d", from, to), all[from-low : to-low+1]
	case 2:
		return fmt.Sprintf("%d-%d/%d", from, to, step), every(from, to)
	case 3:
		return fmt.Sprintf("%d,%d", from, to), []int{from, to}
	case 4:
		return fmt.Sprintf("*/%d", step), every(low, high)
	}
	return "*", all
}

// searchTicks finds the ticks after from, up to and including to, by looking at each minute. A minute is a tick if a due time is
// shown for the first time, or if clocks are put forward past a due time.
func searchTicks(due func(time.Time) bool, zone *time.Location, from, to time.Time) (ticks []time.Time) {
	wall := func(t time.Time) time.Time {
		l := t.In(zone)
		return time.Date(l.Year(), l.Month(), l.Day(), l.Hour(), l.Minute(), 0, 0, time.UTC)
	}
	latest := wall(from.Add(-3 * time.Hour)) // the latest time that the clock has shown
	for t := from.Add(-3 * time.Hour); !t.After(to); t = t.Add(time.Minute) {
		shows := false
		for latest.Before(wall(t)) {
			latest = latest.Add(time.Minute)
			shows = due(latest) || shows
		}
		if shows && t.After(from) {
			ticks = append(ticks, t.UTC())
		}
	}
	return ticks
}

// TestParse compares the ticks of expressions with those that a slow search finds, around the days on which clocks change.
func TestParse(t *testing.T) {
	t.Parallel()
	var zones []*time.Location
	for _, name := range []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"} {
		zone, err := time.LoadLocation(name)
		require.NoError(t, err)
		zones = append(zones, zone)
	}
	changes := []time.Time{ // the clock changes of these zones in 2026, and the end of February in a leap year
		time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC), time.Date(2026, 10, 25, 1, 0, 0, 0, time.UTC), time.Date(2026, 3, 8, 7, 0, 0, 0, time.UTC),
		time.Date(2026, 11, 1, 6, 0, 0, 0, time.UTC), time.Date(2026, 4, 4, 15, 0, 0, 0, time.UTC), time.Date(2026, 10, 3, 15, 30, 0, 0, time.UTC), time.Date(2028, 2, 28, 22, 0, 0, 0, time.UTC),
	}
	rapid.Check(t, func(rt *rapid.T) {
		minute, minutes := drawField(rt, "minute", 0, 59)
		hour, hours := drawField(rt, "hour", 0, 23)
		day, days := drawField(rt, "day", 1, 31)
		month, months := drawField(rt, "month", 1, 12)
		weekday, weekdays := drawField(rt, "weekday", 0, 6)
		expr := strings.Join([]string{minute, hour, day, month, weekday}, " ")
		zone := rapid.SampledFrom(zones).Draw(rt, "zone")
		from := rapid.SampledFrom(changes).Draw(rt, "change").Add(-time.Duration(rapid.IntRange(0, 40*60).Draw(rt, "before")) * time.Minute)
		to := from.Add(72 * time.Hour)
		next, err := Parse(expr, zone)
		if err != nil {
			require.ErrorContains(rt, err, "no such day", expr)
			return
		}
		due := func(w time.Time) bool {
			mustMatchBoth := strings.HasPrefix(day, "*") || strings.HasPrefix(weekday, "*")
			onDay, onWeekday := slices.Contains(days, w.Day()), slices.Contains(weekdays, int(w.Weekday()))
			return slices.Contains(minutes, w.Minute()) && slices.Contains(hours, w.Hour()) && slices.Contains(months, int(w.Month())) && (onDay && onWeekday || !mustMatchBoth && (onDay || onWeekday))
		}
		var got []time.Time
		for at := next(from); !at.IsZero() && !at.After(to); at = next(at) {
			got = append(got, at)
		}
		require.Equal(rt, searchTicks(due, zone, from, to), got, "%s in %s", expr, zone)
	})
}

// TestYear checks that each time of a year is one tick in zones whose clocks change.
func TestYear(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		hours    int    // number of ticks of an hourly expression in 2026; without clock changes there are 8760
		repeated string // one tick at a time that clocks show twice
		missing  string // the tick for a time that clocks skip
	}{
		"UTC":                 {8760, "2026-10-25T02:30:00Z", "2026-03-29T02:30:00Z"},
		"Europe/Berlin":       {8759, "2026-10-25T00:30:00Z", "2026-03-29T01:00:00Z"},
		"America/New_York":    {8759, "2026-11-01T05:30:00Z", "2026-03-08T07:00:00Z"},
		"Australia/Lord_Howe": {8760, "2026-04-04T14:45:00Z", "2026-10-03T15:30:00Z"},
	} {
		zone, err := time.LoadLocation(name)
		require.NoError(t, err)
		from, to := time.Date(2025, 12, 31, 23, 59, 0, 0, zone), time.Date(2027, 1, 1, 0, 0, 0, 0, zone)
		ticksOf := func(expr string) (ticks []time.Time) {
			next, err := Parse(expr, zone)
			require.NoError(t, err)
			for at := next(from); at.Before(to); at = next(at) {
				ticks = append(ticks, at)
			}
			return ticks
		}
		require.Len(t, ticksOf("0 * * * *"), c.hours, name)
		hour, minute := "2", "30" // a time that is skipped where clocks are put forward from 2 to 3
		repeated := map[string]string{"America/New_York": "30 1 * * *", "Australia/Lord_Howe": "45 1 * * *"}[name]
		if repeated == "" {
			repeated = "30 2 * * *"
		}
		if name == "Australia/Lord_Howe" {
			minute = "15"
		}
		for expr, want := range map[string]string{repeated: c.repeated, minute + " " + hour + " * * *": c.missing} {
			ticks := ticksOf(expr)
			require.Len(t, ticks, 365, "%s in %s", expr, name)
			at, err := time.Parse(time.RFC3339, want)
			require.NoError(t, err)
			require.Contains(t, ticks, at, "%s in %s", expr, name)
		}
	}
}

// TestRefused checks which expressions are refused, and that others are accepted.
func TestRefused(t *testing.T) {
	t.Parallel()
	for expr, why := range map[string]string{
		"": "0 fields", "* * * *": "4 fields", "0 0 * * * *": "6 fields", "@often": "1 fields", "@always": "1 fields", "61 * * * *": `"61"`, "*,x * * * *": `"X"`, "0 0 L * *": `"L"`,
		"0 0 30 2 *": "no such day", "5-1 * * * *": `"5-1"`, "*/0 * * * *": `"*/0"`, ", * * * *": `""`, "1- * * * *": `"1-"`, "1/ * * * *": `"1/"`, "0 24 * * *": `"24"`,
		"1-5-9 * * * *": `"1-5-9"`, "*/5/7 * * * *": `"*/5/7"`, "1-5-9/2 * * * *": `"1-5-9/2"`, "0,70/5 * * * *": `"70/5"`, "0 0 0/5 * *": `"0/5"`, "* * * * 8/2": `"8/2"`,
	} {
		_, err := Parse(expr, time.UTC)
		require.ErrorContains(t, err, why, expr)
	}
	for _, expr := range []string{"@daily", "0 9 * * mon-fri", "0 0 1 jan *", "0 0 29 2 *", "*/5 9-17 1,15 * 7", "0/5 5/7 10-20/3 * 7/2"} {
		_, err := Parse(expr, time.UTC)
		require.NoError(t, err, expr)
	}
}

func BenchmarkNext(b *testing.B) {
	for _, expr := range []string{"* * * * *", "0 3 * * 1", "0 0 29 2 *"} {
		b.Run(expr, func(b *testing.B) {
			next, err := Parse(expr, time.UTC)
			require.NoError(b, err)
			at := time.Now()
			for b.Loop() {
				next(at)
			}
		})
	}
}
