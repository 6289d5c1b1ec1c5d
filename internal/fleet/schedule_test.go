package fleet

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestAdvance advances a schedule with random ticks at random times, and compares what happens to each tick with a slow and
// simple computation. If the server is killed before the result of a call is stored, the call has no effect.
func TestAdvance(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	rapid.Check(t, func(rt *rapid.T) {
		every := time.Duration(rapid.IntRange(1, 90).Draw(rt, "every")) * time.Minute
		next := func(after time.Time) time.Time { return begin.Add((after.Sub(begin)/every + 1) * every) }
		s := Schedule{OnMissed: rapid.SampledFrom([]MissedPolicy{MissedSkip, MissedLatest, MissedAll}).Draw(rt, "missed"), HandledUntil: begin}
		var queued []time.Time
		times := map[time.Time]int{} // how often each tick queued a task
		now := begin
		for range rapid.IntRange(1, 12).Draw(rt, "calls") {
			now = now.Add(time.Duration(rapid.IntRange(0, 5*60).Draw(rt, "passes")) * time.Minute / 2)
			if rapid.Bool().Draw(rt, "killed") {
				lost := s
				lost.Advance(next, now)
				continue
			}
			var due []time.Time
			for at := begin.Add(every); !at.After(now); at = at.Add(every) {
				if at.After(s.HandledUntil) {
					due = append(due, at)
				}
			}
			var want []time.Time
			switch {
			case s.OnMissed == MissedAll:
				want = due
			case s.OnMissed == MissedLatest && len(due) > 0:
				want = due[len(due)-1:]
			case s.OnMissed == MissedSkip:
				for _, at := range due {
					if now.Sub(at) < time.Minute {
						want = append(want, at)
					}
				}
			}
			var got []time.Time
			missed := s.Missed
			for {
				tick, more := s.Advance(next, now)
				if !more {
					break
				}
				if !tick.IsZero() {
					require.Equal(rt, tick, s.LastTick)
					got = append(got, tick)
				}
			}
			require.Equal(rt, want, got)
			require.EqualValues(rt, len(due)-len(got), s.Missed-missed)
			queued = append(queued, got...)
		}
		for _, at := range queued {
			times[at]++
			require.Equal(rt, 1, times[at], at)
		}
	})
}

// TestAdvanceFar checks that Advance handles the ticks of a year, one in every minute, in few calls, and that the last ticks queue
// tasks.
func TestAdvanceFar(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	now := begin.AddDate(1, 0, 0)
	nextMinute := func(after time.Time) time.Time { return after.Truncate(time.Minute).Add(time.Minute) }
	for policy, want := range map[MissedPolicy]int{MissedAll: 600, MissedLatest: 1, MissedSkip: 1} {
		s := Schedule{OnMissed: policy, HandledUntil: begin}
		queued, calls := 0, 0
		for {
			tick, due := s.Advance(nextMinute, now)
			if !due {
				break
			}
			calls++
			if !tick.IsZero() {
				queued++
			}
		}
		require.Equal(t, want, queued, policy)
		require.EqualValues(t, 365*1440-want, s.Missed, policy)
		require.LessOrEqual(t, calls, 525+want, policy)
		require.Equal(t, now, s.HandledUntil)
	}
}

// TestScheduleVisibleTo checks who sees a schedule.
func TestScheduleVisibleTo(t *testing.T) {
	t.Parallel()
	unrestricted, restricted := Schedule{Owner: "alice"}, Schedule{Owner: "alice", Projects: []string{"web"}}
	for _, c := range []struct {
		p                                Principal
		seesUnrestricted, seesRestricted bool
	}{
		{Principal{Name: "alice"}, true, true},
		{Principal{Name: "alice", Projects: []string{"web", "api"}}, false, true},
		{Principal{Name: "alice", Projects: []string{"api"}}, false, false},
		{Principal{Name: "bob"}, false, false},
		{Principal{Name: "root", Scope: ScopeAdmin}, true, true},
	} {
		require.Equal(t, c.seesUnrestricted, unrestricted.VisibleTo(c.p), c.p)
		require.Equal(t, c.seesRestricted, restricted.VisibleTo(c.p), c.p)
	}
}
