package admission

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"fleet/internal/fleet"
	"fleet/internal/waittest"
)

// newSlots returns slots with these limits for a server that uses one CPU.
func newSlots(slots, maxWaiting int, maxWait time.Duration) *Slots {
	return NewSlots(fleet.Limits{CallsPerCPU: slots, WaitingCalls: maxWaiting, WaitingTime: maxWait}, 1, slog.New(slog.DiscardHandler), func(time.Duration) {})
}

// hasSlot reports whether the call has a slot.
func (c *waitingCall) hasSlot() bool {
	select {
	case <-c.ready:
		return true
	default:
		return false
	}
}

// TestSlotsAreFair lets calls of several principals come, wait, give up and end in any order. It checks that no slot
// stays free while a call waits. Between two calls of a principal that get slots, every other principal that waits must
// get a slot.
func TestSlotsAreFair(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "c", "d"}
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 3).Draw(t, "slots")
		s := newSlots(most, 0, 0)
		working := 0
		waiting := map[string][]*waitingCall{} // by principal, oldest first
		grantsSince := map[string][]string{}   // for each principal, the principals that got slots while it waited
		// settle records who got the new slots, and checks that their number is right.
		settle := func(got int) {
			for range got {
				name := ""
				for _, n := range names {
					if w := waiting[n]; len(w) > 0 && w[0].hasSlot() {
						require.Empty(t, name, "only one call must get the slot")
						name = n
						require.False(t, len(w) > 1 && w[1].hasSlot())
					}
				}
				require.NotEmpty(t, name, "a waiting call must get the slot")
				for n := range grantsSince {
					if n != name {
						require.NotContains(t, grantsSince[n], name, "%s has waited while %s got two slots", n, name)
						grantsSince[n] = append(grantsSince[n], name)
					}
				}
				waiting[name] = waiting[name][1:]
				working++
				grantsSince[name] = nil
				if len(waiting[name]) == 0 {
					delete(grantsSince, name)
				}
			}
			total := 0
			for _, n := range names {
				total += len(waiting[n])
				for _, c := range waiting[n] {
					require.False(t, c.hasSlot(), "a call must not get a slot before its turn")
				}
			}
			require.Equal(t, working, s.Working())
			require.Equal(t, total, s.Waiting())
			require.Len(t, s.queues, len(grantsSince))
			require.True(t, working == most || total == 0, "no slot must be free while calls wait")
		}
		t.Repeat(map[string]func(*rapid.T){
			"come": func(t *rapid.T) {
				name := rapid.SampledFrom(names).Draw(t, "principal")
				if s.tryTake() {
					require.Less(t, working, most)
					working++
				} else {
					c, err := s.takeOrEnqueue(name)
					require.NoError(t, err)
					require.NotNil(t, c)
					waiting[name] = append(waiting[name], c)
					if _, ok := grantsSince[name]; !ok {
						grantsSince[name] = nil
					}
				}
				settle(0)
			},
			"end": func(t *rapid.T) {
				if working == 0 {
					t.Skip("no call has a slot")
				}
				next := min(1, s.Waiting())
				working--
				s.Release()
				settle(next)
			},
			"give up": func(t *rapid.T) {
				name := rapid.SampledFrom(names).Draw(t, "principal")
				w := waiting[name]
				if len(w) == 0 {
					t.Skip("no call waits")
				}
				i := rapid.IntRange(0, len(w)-1).Draw(t, "call")
				require.True(t, s.withdraw(w[i]))
				require.False(t, s.withdraw(w[i]))
				if waiting[name] = slices.Delete(w, i, i+1); len(waiting[name]) == 0 {
					delete(grantsSince, name)
				}
				settle(0)
			},
		})
	})
}

// TestManyWaitingCallsDelayOthersByOne lets 1,000 calls of the principal heavy wait, and then one call of each of two
// others. heavy must get the next slot, and the other two must get the second and the third.
func TestManyWaitingCallsDelayOthersByOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1, 1000, 0)
		require.NoError(t, s.Take(t.Context(), "heavy"))
		var order []string
		addCall := func(name string) {
			go func() {
				if s.Take(t.Context(), name) == nil {
					order = append(order, name) // needs no lock, because only one call has the slot
					s.Release()
				}
			}()
			synctest.Wait()
		}
		for range 1000 {
			addCall("heavy")
		}
		addCall("alice")
		addCall("bob")
		require.Equal(t, 1002, s.Waiting())
		s.Release()
		synctest.Wait()
		require.Equal(t, []string{"heavy", "alice", "bob", "heavy"}, order[:4])
		require.Len(t, order, 1002)
		require.Zero(t, s.Waiting())
		require.Zero(t, s.Working())
		require.Empty(t, s.queues)
	})
}

// TestWaitingIsBounded checks the limits of a queue: its length, and the time that a call may wait in it.
func TestWaitingIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, waited := &strings.Builder{}, make(chan time.Duration, 3)
		s := NewSlots(fleet.Limits{CallsPerCPU: 2, WaitingCalls: 1, WaitingTime: 1500 * time.Millisecond}, 2,
			slog.New(slog.NewTextHandler(log, nil)), func(d time.Duration) { waited <- d })
		for range 4 {
			require.NoError(t, s.Take(t.Context(), "alice"))
		}
		requireRefused := func(err error, limit, used string) {
			t.Helper()
			e, ok := errors.AsType[*fleet.Error](err)
			require.True(t, ok, err)
			require.Equal(t, fleet.ReasonLimitReached, e.Reason)
			require.Equal(t, map[string]string{"limit": limit, "used": used, "max": used}, e.Metadata)
			require.Equal(t, time.Second, e.RetryAfter)
		}
		result := make(chan error, 1)
		go func() { result <- s.Take(t.Context(), "alice") }()
		synctest.Wait()
		requireRefused(s.Take(t.Context(), "alice"), "limits.waiting_calls", "1")
		requireRefused(s.Take(t.Context(), "bob"), "limits.waiting_time", "1.5")
		requireRefused(<-result, "limits.waiting_time", "1.5")
		require.Equal(t, 1500*time.Millisecond, <-waited)
		require.Equal(t, 1500*time.Millisecond, <-waited)
		require.Equal(t, 1, strings.Count(log.String(), "refusing some"), log)

		ctx, cancel := context.WithCancel(t.Context())
		go func() { result <- s.Take(ctx, "alice") }()
		synctest.Wait()
		require.Equal(t, 1, s.Waiting())
		cancel()
		require.ErrorIs(t, <-result, context.Canceled)
		require.Zero(t, s.Waiting(), "a call that was cancelled must no longer wait")
		require.Equal(t, 4, s.Working())
	})
}

// TestSlotOfACancelledCall checks that a slot is free for others if its call is cancelled just before it gets the slot.
func TestSlotOfACancelledCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1, 0, 0)
		for range 64 { // the call notices the end of its context before or after it has the slot
			require.True(t, s.tryTake())
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				if s.Take(ctx, "alice") == nil {
					s.Release()
				}
			}()
			synctest.Wait()
			cancel()
			s.Release()
			synctest.Wait()
			require.Zero(t, s.Working())
		}
	})
}

// TestSlotsAreNotLost lets many calls take slots, give up and release at the same time. In the end all slots must be
// free.
func TestSlotsAreNotLost(t *testing.T) {
	t.Parallel()
	s := newSlots(3, 0, 0)
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for n := range 200 {
				ctx, cancel := context.WithCancel(t.Context())
				if (i+n)%3 == 0 {
					all.Go(cancel)
				}
				callSlot := slot{slots: s}
				if callSlot.take(ctx, strconv.Itoa(i%4)) == nil {
					all.Go(callSlot.Release) // a call can release its slot twice
					callSlot.Release()
				}
				cancel()
			}
		})
	}
	all.Wait()
	require.Zero(t, s.Waiting())
	require.Empty(t, s.queues)
	for range 3 {
		require.True(t, s.tryTake())
	}
	require.False(t, s.tryTake())
}

// TestUnknownCallersTakeSlots checks that work for unknown callers waits for a slot too.
func TestUnknownCallersTakeSlots(t *testing.T) {
	t.Parallel()
	slots := newSlots(1, 0, 0)
	i := &Interceptor{slots: slots}
	leave, err := i.TakeSlot(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, slots.Working())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = i.TakeSlot(ctx)
	require.Error(t, err)
	leave()
	require.Zero(t, slots.Working())
}

// TestNilSlots checks that a nil *Slots has a slot for every call, and that ReleaseSlot accepts a context without a call.
func TestNilSlots(t *testing.T) {
	t.Parallel()
	var none *Slots
	require.NoError(t, none.Take(t.Context(), "alice"))
	none.Release()
	require.Zero(t, none.Waiting()+none.Working())
	fleet.ReleaseSlot(t.Context())
}

// TestSetLimits changes the limits while calls wait: more slots go to the calls that wait, and fewer slots end no call.
func TestSetLimits(t *testing.T) {
	t.Parallel()
	s := newSlots(1, 1, time.Minute)
	require.NoError(t, s.Take(t.Context(), "alice"))
	got := make(chan error, 1)
	go func() { got <- s.Take(t.Context(), "bob") }()
	waittest.Until(t, "a waiting call gives no signal", func() bool { return s.Waiting() == 1 })
	s.SetLimits(fleet.Limits{CallsPerCPU: 2, WaitingCalls: 1, WaitingTime: time.Minute})
	require.NoError(t, <-got)
	require.Equal(t, 2, s.Working())
	s.SetLimits(fleet.Limits{CallsPerCPU: 1, WaitingTime: time.Millisecond})
	require.Equal(t, 2, s.Working())
	s.Release()
	require.ErrorContains(t, s.Take(t.Context(), "carol"), "your call has waited for 1ms")
	s.SetLimits(fleet.Limits{})
	for range 100 {
		require.NoError(t, s.Take(t.Context(), "carol"))
	}
	require.Equal(t, 101, s.Working())
}

// TestFreeSlotsCostNoMemory checks that a call that does not have to wait allocates no memory for its slot.
func TestFreeSlotsCostNoMemory(t *testing.T) {
	s := newSlots(2, 0, time.Second)
	callSlot := &slot{slots: s}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_ = callSlot.take(t.Context(), "alice")
		callSlot.Release()
	}))
}

func BenchmarkSlots(b *testing.B) {
	s := newSlots(1<<20, 1000, time.Second)
	b.Run("one caller", func(b *testing.B) {
		b.ReportAllocs()
		callSlot := &slot{slots: s}
		for b.Loop() {
			_ = callSlot.take(b.Context(), "alice")
			callSlot.Release()
		}
	})
	b.Run("many callers", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			callSlot := &slot{slots: s}
			for pb.Next() {
				_ = callSlot.take(b.Context(), "alice")
				callSlot.Release()
			}
		})
	})
}
