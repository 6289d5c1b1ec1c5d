package fleet

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestBudgetValidate(t *testing.T) {
	t.Parallel()
	good := Budget{Name: "team-web", Limit: 1}
	require.NoError(t, good.Validate())
	require.Equal(t, Budget{Name: "team-web", Limit: 1, Scope: BudgetFleet, Window: WindowNone, OnBreach: BreachHold, Unpriced: UnpricedRefuse}, good)
	for field, b := range map[string]Budget{
		"name":         {Name: "a b", Limit: 1},
		"scope":        {Name: "a", Limit: 1, Scope: "team"},
		"value":        {Name: "a", Limit: 1, Scope: BudgetProject},
		"window":       {Name: "a", Limit: 1, Window: "year"},
		"time_zone":    {Name: "a", Limit: 1, TimeZone: "Mars/Olympus"},
		"limit_usd":    {Name: "a"},
		"limit_tokens": {Name: "a", TokenLimit: -1},
		"on_breach":    {Name: "a", Limit: 1, OnBreach: "wait"},
		"unpriced":     {Name: "a", Limit: 1, Unpriced: "maybe"},
	} {
		var e *Error
		require.ErrorAs(t, b.Validate(), &e, field)
		require.Equal(t, field, e.Field, e.Message)
	}
	for _, b := range []Budget{
		{Name: "a", Limit: 1, Value: "x"},
		{Name: "a", Limit: 1, Scope: BudgetLabel, Value: "env=("},
		{Name: "a", Limit: 1, TimeZone: "Local"},
		{Name: "a", Limit: MaxTaskCostUSD*1_000_000 + 1},
	} {
		require.Error(t, b.Validate())
	}
}

func TestBudgetApplies(t *testing.T) {
	t.Parallel()
	a, task := &Agent{Name: "Papi", Owner: "alice", Place: "local", Project: "web", Role: "coder", Pool: "p"}, &Task{Labels: Labels{"env": "prod"}}
	for _, c := range []struct {
		scope BudgetScope
		value string
		want  bool
	}{
		{BudgetFleet, "", true},
		{BudgetProject, "web", true},
		{BudgetProject, "local/web", true},
		{BudgetProject, "coder/web", false},
		{BudgetPool, "p", true},
		{BudgetPool, "q", false},
		{BudgetRole, "coder", true},
		{BudgetRole, "web/coder", true},
		{BudgetRole, "api/coder", false},
		{BudgetAgent, "papi", true},
		{BudgetAgent, "papi@alice", true},
		{BudgetAgent, "papi@bob", false},
		{BudgetOwner, "alice", true},
		{BudgetOwner, "bob", false},
		{BudgetLabel, "env in (prod,test)", true},
		{BudgetLabel, "env!=prod", false},
	} {
		b := Budget{Scope: c.scope, Value: c.value}
		require.Equal(t, c.want, b.Applies(a, task), "%s %s", c.scope, c.value)
	}
}

// zones are time zones whose clocks change at 2:00, at midnight, or back to midnight, by an hour or by half an hour, or never.
var zones = []string{"UTC", "Europe/Berlin", "America/New_York", "Asia/Beirut", "America/Havana", "America/Santiago", "Australia/Lord_Howe", "Africa/Cairo", "America/Asuncion", "Asia/Kolkata"}

// TestWindowAt checks that windows follow each other without gaps, and that they are whole local days.
func TestWindowAt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		b := Budget{Window: rapid.SampledFrom(BudgetWindows[1:]).Draw(rt, "window"), TimeZone: rapid.SampledFrom(zones).Draw(rt, "zone")}
		loc, err := time.LoadLocation(b.TimeZone)
		require.NoError(rt, err)
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(rapid.Int64Range(0, 2*365*24*3600*1000).Draw(rt, "ms")) * time.Millisecond)
		checkWindow(rt, b, now, loc)
	})
}

// checkWindow fails the test if the window of the budget at the time now does not contain now, differs from the window at its
// own first or last moment, does not end where the next one begins, or is not made of whole days of the time zone.
func checkWindow(t require.TestingT, b Budget, now time.Time, loc *time.Location) {
	begin, end := b.WindowAt(now)
	window := fmt.Sprintf("%s %s at %s: %s to %s", b.Window, b.TimeZone, now.In(loc), begin.In(loc), end.In(loc))
	require.False(t, begin.After(now), window)
	require.True(t, end.After(now), window)
	same, _ := b.WindowAt(begin)
	require.Equal(t, begin, same, window)
	same, _ = b.WindowAt(end.Add(-1))
	require.Equal(t, begin, same, window)
	next, _ := b.WindowAt(end)
	require.Equal(t, end, next, window)
	first, last := begin.In(loc), end.Add(-1).In(loc)
	require.NotEqual(t, first.Day(), begin.Add(-1).In(loc).Day(), window)
	switch b.Window {
	case WindowDay:
		require.Equal(t, first.YearDay(), last.YearDay(), window)
	case WindowWeek:
		require.Equal(t, time.Monday, first.Weekday(), window)
		require.Equal(t, time.Sunday, last.Weekday(), window)
	case WindowMonth:
		require.Equal(t, 1, first.Day(), window)
		require.Equal(t, first.Month(), last.Month(), window)
	}
}

// TestWindowAtClockChanges checks the hours around each change of the clock and at the beginning of each month, and the
// nanosecond before each of these hours.
func TestWindowAtClockChanges(t *testing.T) {
	t.Parallel()
	for _, name := range zones {
		loc, err := time.LoadLocation(name)
		require.NoError(t, err)
		b := Budget{Window: WindowDay, TimeZone: name}
		day := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		for at := day; at.Before(day.AddDate(1, 0, 0)); at = at.Add(time.Hour) {
			_, before := at.Add(-30 * time.Hour).In(loc).Zone()
			if _, after := at.Add(30 * time.Hour).In(loc).Zone(); before == after && at.Day() > 2 {
				continue // far from a change of the clock, and in the middle of a month
			}
			checkWindow(t, b, at, loc)
			checkWindow(t, b, at.Add(-time.Nanosecond), loc)
		}
	}
	begin, end := (&Budget{Window: WindowDay, TimeZone: "Europe/Berlin"}).WindowAt(time.Date(2026, 3, 29, 12, 0, 0, 0, time.UTC))
	require.Equal(t, 23*time.Hour, end.Sub(begin))
	begin, end = (&Budget{Window: WindowDay, TimeZone: "Europe/Berlin"}).WindowAt(time.Date(2026, 10, 25, 12, 0, 0, 0, time.UTC))
	require.Equal(t, 25*time.Hour, end.Sub(begin))
}

func TestWindowAtWithoutEnd(t *testing.T) {
	t.Parallel()
	begin, end := (&Budget{Window: WindowNone}).WindowAt(time.Now())
	require.Equal(t, time.Unix(0, 0).UTC(), begin)
	require.Zero(t, end)
}
