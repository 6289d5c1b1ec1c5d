package reconcile_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service/servicetest"
	"fleet/internal/state"
)

// downloadBundle returns the agent's bundle.
func downloadBundle(h *servicetest.Harness, agent string) (string, error) {
	_, content, err := h.DownloadBundle(h.Context(), agent)
	return string(content), err
}

// TestWorkIsKept checks that the unpushed work of an agent can be downloaded as a bundle after the agent was deleted, and that
// Fleet says which work may be lost if it cannot get the bundle.
func TestWorkIsKept(t *testing.T) {
	t.Parallel()
	world := fake.Config{Traits: fleet.Traits{SupportsChanges: true, SupportsBundles: true}}
	t.Run("of an agent whose task runs or has failed", func(t *testing.T) {
		t.Parallel()
		h := servicetest.NewWithPapi(t, world, nil)
		h.WaitTask(h.Start("papi", "change first a line\nfail no idea").ID)
		h.Start("papi", "change second a line\nwait on")
		<-h.FakePlace.Reached("on")
		h.MustDelete("papi")
		bundle, err := downloadBundle(h, "papi")
		require.NoError(t, err)
		require.Equal(t, "first a line\nsecond a line\n", bundle)
	})
	t.Run("an agent without work has no bundle", func(t *testing.T) {
		t.Parallel()
		h := servicetest.NewWithPapi(t, world, nil)
		h.WaitTask(h.Start("papi", "done").ID)
		_, err := downloadBundle(h, "papi")
		require.Equal(t, fleet.ReasonBundleNotFound, fleet.ReasonOf(err))
		require.Equal(t, "Agent 'papi' deleted successfully", h.MustDelete("papi"))
		_, err = downloadBundle(h, "papi")
		require.Equal(t, fleet.ReasonBundleNotFound, fleet.ReasonOf(err))
	})
	t.Run("if the place keeps it by itself", func(t *testing.T) {
		t.Parallel()
		keepingWorld := world
		keepingWorld.Traits.KeepsWork = true
		h := servicetest.NewWithPapi(t, keepingWorld, nil)
		h.WaitTask(h.Start("papi", "change made a line").ID)
		require.Equal(t, "Agent 'papi' deleted successfully", h.MustDelete("papi"))
		bundle, err := downloadBundle(h, "papi")
		require.NoError(t, err)
		require.Equal(t, "made a line\n", bundle)
	})
	fastClock := func(c *state.Config) { // each call of Now returns a time that is 20 seconds later
		var calls atomic.Int64
		c.Now = func() time.Time { return time.Now().Add(time.Duration(calls.Add(1)) * 20 * time.Second) }
	}
	t.Run("a workspace that cannot be reached for a moment keeps its work", func(t *testing.T) {
		t.Parallel()
		h := servicetest.New(t, world, nil)
		v := h.Create("papi")
		h.WaitTask(h.Start("papi", "change made a line").ID)
		h.FakePlace.Fail(fake.Bundle, 1, nil)
		require.Equal(t, "Agent 'papi' deleted successfully; what it had not pushed is kept: fleet agent rescue papi", h.MustDelete("papi"))
		require.Contains(t, strings.Join(h.Events(fleet.EventAgentChanged), "\n"), "its work is fetched first, but its workspace cannot be reached")
		require.Equal(t, 2, h.FakePlace.Calls(fake.Bundle))
		require.Contains(t, h.WaitDeleted(v.UID).StateReason, "is kept")
	})
	t.Run("a workspace that is not shown is not waited for", func(t *testing.T) {
		t.Parallel()
		h := servicetest.NewWithPapi(t, world, nil)
		h.FakePlace.HideWorkspace("papi")
		h.FakePlace.Fail(fake.Bundle, 1<<30, nil)
		require.Contains(t, h.MustDelete("papi"), "was not deleted")
		require.Equal(t, 1, h.FakePlace.Calls(fake.Bundle))
	})
	t.Run("a workspace that cannot be reached is deleted all the same", func(t *testing.T) {
		t.Parallel()
		h := servicetest.NewWithPapi(t, world, fastClock)
		h.WaitTask(h.Start("papi", "change made a line").ID)
		h.FakePlace.Fail(fake.Bundle, 1<<30, nil)
		reply := h.MustDelete("papi")
		require.Contains(t, reply, "may be lost: its workspace could not be reached (the agents' host does not answer; try again), so what the agent had not pushed is not kept")
		require.Contains(t, reply, `its last task left commits on "fleet/papi" that no remote has, and changes that it did not commit`)
		require.Empty(t, h.FakePlace.Workspaces())
		_, err := downloadBundle(h, "papi")
		require.Equal(t, fleet.ReasonBundleNotFound, fleet.ReasonOf(err))
		require.ErrorContains(t, err, "could not be reached")
	})
	t.Run("an unreachable workspace may have work, although the store has no task of the agent", func(t *testing.T) {
		t.Parallel()
		h := servicetest.NewWithPapi(t, world, fastClock)
		h.FakePlace.Fail(fake.Bundle, 1<<30, nil)
		require.Contains(t, h.MustDelete("papi"), "may be lost: its workspace could not be reached")
	})
	t.Run("an adopted agent without a task in the store", func(t *testing.T) {
		t.Parallel()
		adoptingWorld := world
		adoptingWorld.Traits.Adopts = true
		h := servicetest.NewWithPapi(t, adoptingWorld, nil)
		h.WaitTask(h.Start("papi", "change made a line").ID)
		other := servicetest.NewIn(t, h.FakePlace, nil) // a Fleet that has lost its database
		require.Contains(t, other.MustDelete("papi"), "is kept: fleet agent rescue papi")
		bundle, err := downloadBundle(other, "papi")
		require.NoError(t, err)
		require.Equal(t, "made a line\n", bundle)
	})
	t.Run("a stopped workspace is started first", func(t *testing.T) {
		t.Parallel()
		slowWorld := world
		slowWorld.BuildPolls = 2
		h := servicetest.NewWithPapi(t, slowWorld, nil)
		h.WaitTask(h.Start("papi", "change made a line").ID)
		h.MustStop("papi")
		require.Contains(t, h.MustDelete("papi"), "is kept: fleet agent rescue papi")
		bundle, err := downloadBundle(h, "papi")
		require.NoError(t, err)
		require.Equal(t, "made a line\n", bundle)
		require.Contains(t, strings.Join(h.Events(fleet.EventAgentChanged), "\n"), "its workspace is started first, to fetch the work in it")
		require.Empty(t, h.FakePlace.Workspaces())
	})
	t.Run("a stopped workspace that starts slowly and cannot be reached for a moment", func(t *testing.T) {
		t.Parallel()
		var clockOffset atomic.Int64
		h := servicetest.NewWithPapi(t, world, func(c *state.Config) {
			c.Now = func() time.Time { return time.Now().Add(time.Duration(clockOffset.Load())) }
		})
		h.WaitTask(h.Start("papi", "change made a line").ID)
		h.MustStop("papi")
		start := h.FakePlace.HoldAfter(fake.Start)
		go func() {
			<-start.Arrived()
			clockOffset.Store(int64(5 * time.Minute))
			h.FakePlace.Fail(fake.Bundle, 1, nil)
			start.Open()
		}()
		require.Contains(t, h.MustDelete("papi"), "is kept: fleet agent rescue papi")
		bundle, err := downloadBundle(h, "papi")
		require.NoError(t, err)
		require.Equal(t, "made a line\n", bundle)
	})
	t.Run("a stopped workspace that cannot be started", func(t *testing.T) {
		t.Parallel()
		h := servicetest.NewWithPapi(t, world, nil)
		h.WaitTask(h.Start("papi", "change made a line").ID)
		h.MustStop("papi")
		h.FakePlace.FailBuild("papi", "no quota")
		require.Contains(t, h.MustDelete("papi"), "may be lost: its workspace could not be reached")
		require.Empty(t, h.FakePlace.Workspaces())
	})
	t.Run("an agent that never ran has nothing to lose", func(t *testing.T) {
		t.Parallel()
		h := servicetest.New(t, world, nil)
		h.FakePlace.FailBuild("papi", "no quota")
		_, err := h.CreateIn("papi", "Setup")
		require.Equal(t, fleet.ReasonProvisioningFailed, fleet.ReasonOf(err))
		require.Equal(t, "Agent 'papi' deleted successfully", h.MustDelete("papi"))
		require.Equal(t, 0, h.FakePlace.Calls(fake.Start))
	})
	t.Run("a bundle over the limit is not kept", func(t *testing.T) {
		t.Parallel()
		h := servicetest.NewWithPapi(t, world, func(c *state.Config) { c.MaxBundle = 10 })
		h.WaitTask(h.Start("papi", "change made a line").ID)
		_, err := downloadBundle(h, "papi")
		require.Equal(t, fleet.ReasonLimitReached, fleet.ReasonOf(err))
		require.Contains(t, h.MustDelete("papi"), "is more than 10 bytes and is not kept")
	})
	t.Run("a deletion that is retried stores the bundle once", func(t *testing.T) {
		t.Parallel()
		h := servicetest.NewWithPapi(t, world, nil)
		h.WaitTask(h.Start("papi", "change made a line").ID)
		h.FakePlace.FailAfter(fake.Delete, 1, nil) // the workspace is deleted, but the call returns an error
		signal, cancel := h.Store.Subscribe()
		defer cancel()
		_, _, err := h.DeleteAgent(h.Context(), "papi", false, "")
		require.Equal(t, fleet.ReasonBackendUnavailable, fleet.ReasonOf(err))
		for {
			if _, err := h.ShowAgent(h.Context(), "papi"); err != nil {
				require.Equal(t, fleet.ReasonAgentNotFound, fleet.ReasonOf(err))
				break
			}
			<-signal
		}
		bundle, err := downloadBundle(h, "papi")
		require.NoError(t, err)
		require.Equal(t, "made a line\n", bundle)
		require.Equal(t, 1, h.FakePlace.Calls(fake.Bundle))
	})
}
