package service_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/state"
	"fleet/internal/waittest"
)

// flakyStore is a store that a test can let fail and wait.
type flakyStore struct {
	fleet.Store
	fails     atomic.Int64                    // every so many calls fail; 0: none
	calls     atomic.Int64                    // of what can fail
	onRelease func(key string) (after func()) // called before a lease is given back
	onView    func(context.Context)           // called before View
	mu        sync.Mutex                      // guards the functions
}

var errFlaky = errors.New("the disk is full")

func (s *flakyStore) fail() error {
	if n := s.fails.Load(); n > 0 && s.calls.Add(1)%n == 0 {
		return errFlaky
	}
	return nil
}

func (s *flakyStore) Update(ctx context.Context, fn func(fleet.Tx) error) error {
	return s.Store.Update(ctx, func(tx fleet.Tx) error { // half of the failures come after the work, and take it back
		if s.calls.Load()%2 == 0 {
			if err := s.fail(); err != nil {
				return err
			}
			return fn(tx)
		}
		if err := fn(tx); err != nil {
			return err
		}
		return s.fail()
	})
}

func (s *flakyStore) View(ctx context.Context, fn func(fleet.ReadTx) error) error {
	s.mu.Lock()
	hook := s.onView
	s.mu.Unlock()
	if hook != nil {
		hook(ctx)
	}
	if err := s.fail(); err != nil {
		return err
	}
	return s.Store.View(ctx, fn)
}

func (s *flakyStore) LastSeq(ctx context.Context) (int64, error) {
	if err := s.fail(); err != nil {
		return 0, err
	}
	return s.Store.LastSeq(ctx)
}

func (s *flakyStore) Lease(ctx context.Context, key, owner string, ttl time.Duration) (int64, error) {
	if err := s.fail(); err != nil {
		return 0, err
	}
	return s.Store.Lease(ctx, key, owner, ttl)
}

func (s *flakyStore) RenewLeases(ctx context.Context, owner string, ttl time.Duration) (map[string]int64, error) {
	if err := s.fail(); err != nil {
		return nil, err
	}
	return s.Store.RenewLeases(ctx, owner, ttl)
}

func (s *flakyStore) Noted(ctx context.Context, key string) (time.Duration, bool, error) {
	if s.fails.Load() == 1 { // nothing works at all
		return 0, false, errFlaky
	}
	return s.Store.Noted(ctx, key)
}

func (s *flakyStore) Release(ctx context.Context, key, owner string) error {
	s.mu.Lock()
	hook := s.onRelease
	s.mu.Unlock()
	if hook != nil {
		defer hook(key)()
	}
	return s.Store.Release(ctx, key, owner)
}

func newFlaky(t *testing.T, with func(*state.Config)) (*harness, *flakyStore) {
	t.Helper()
	var flaky *flakyStore
	h := newHarnessOver(t, fake.Config{}, with, func(s fleet.Store) fleet.Store {
		flaky = &flakyStore{Store: s}
		return flaky
	})
	return h, flaky
}

// TestStoreFails lets every third access to the store fail for a while: everything still ends as it should, once.
func TestStoreFails(t *testing.T) {
	t.Parallel()
	h, flaky := newFlaky(t, nil)
	h.create("papi")
	task := h.start("papi", "repeat 300 line\nwait gate\necho last\ndone well")
	flaky.fails.Store(3)
	<-h.world.Reached("gate")
	time.AfterFunc(200*time.Millisecond, func() { h.world.Release("gate") })
	<-h.world.Ended(task.ID)
	time.AfterFunc(time.Second, func() { flaky.fails.Store(0) })
	waittest.Until(t, "a store that fails signals nothing", func() bool {
		tasks, done, err := h.WaitTasks(h.ctx(), []string{task.ID}, service.Until{}, 0)
		return err == nil && done && tasks[0].Status == fleet.TaskCompleted
	})
	flaky.fails.Store(0)
	text := h.output(task.ID)
	require.Equal(t, 1, strings.Count(text, "line 300"))
	require.True(t, strings.HasSuffix(text, "line 300last"), text)
	require.Equal(t, 1, h.world.Deliveries(task.ID))
	_, _, err := h.DeleteAgent(h.ctx(), "papi", "")
	require.NoError(t, err)
}

// TestLeaseOutlivesTheWorkerBefore starts a task while the worker before is giving its lease back: the next worker of
// the same reconciler has a lease all the same, and no other reconciler gets it.
func TestLeaseOutlivesTheWorkerBefore(t *testing.T) {
	t.Parallel()
	h, flaky := newFlaky(t, func(c *state.Config) { c.LeaseTTL = time.Hour })
	releasing, release, released := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var first atomic.Bool
	flaky.mu.Lock()
	flaky.onRelease = func(key string) func() {
		if !strings.HasPrefix(key, "agent/") || first.Swap(true) {
			return func() {}
		}
		close(releasing)
		<-release
		return func() { close(released) }
	}
	flaky.mu.Unlock()
	v := h.create("papi")
	<-releasing
	h.start("papi", "wait gate")
	select {
	case <-h.world.Reached("gate"): // it must not, as long as the lease is on its way back
	case <-time.After(100 * time.Millisecond):
	}
	close(release)
	<-released
	<-h.world.Reached("gate")
	epoch, err := h.store.Lease(t.Context(), "agent/"+v.UID, "thief", time.Hour)
	require.NoError(t, err)
	require.Zero(t, epoch, "the agent is worked on without a lease")
	h.world.Release("gate")
}

// TestOutputIsRecordedOnce has a task whose output somebody else has recorded further than its follower knows.
func TestOutputIsRecordedOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t, fake.Config{}, nil)
	h.create("papi")
	task := h.start("papi", "echo one\nwait gate\necho two\necho three\ndone")
	<-h.world.Reached("gate")
	h.stored(func() bool { return h.output(task.ID) == "one" })
	require.NoError(t, h.store.Update(t.Context(), func(tx fleet.Tx) error { // as another process does that follows too
		other, err := tx.Task(task.ID)
		require.NoError(t, err)
		other.Cursor = "2"
		require.NoError(t, tx.UpdateTask(other))
		return tx.Append(&fleet.Event{
			Time: time.Now(), Type: fleet.EventTaskOutput, AgentUID: other.AgentUID, AgentName: other.AgentName, Owner: other.Owner,
			TaskID: other.ID, Text: "two",
		})
	}))
	h.world.Release("gate")
	require.Equal(t, fleet.TaskCompleted, h.end(task.ID).Status)
	require.Equal(t, "onetwothree", h.output(task.ID))
}
