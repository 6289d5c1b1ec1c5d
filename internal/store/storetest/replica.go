package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

var replicaCases = []testCase{
	{"the clock agrees with the times of heartbeats", func(t *testing.T, s fleet.Store) {
		begun := time.Now()
		_, err := s.RecordHeartbeat(t.Context(), fleet.Replica{Name: "one", Machine: "m1"}, true) // corrects the clock
		require.NoError(t, err)
		tolerance := time.Since(begun) + 100*time.Millisecond // the clock may be off by the duration of a call
		before := s.Now()
		_, err = s.RecordHeartbeat(t.Context(), fleet.Replica{Name: "one", Machine: "m1"}, true)
		require.NoError(t, err)
		all, err := s.Replicas(t.Context())
		require.NoError(t, err)
		require.Len(t, all, 1)
		require.WithinRange(t, all[0].HeartbeatAt, before.Add(-tolerance), s.Now().Add(tolerance))
	}},
	{"servers are listed until they are forgotten", func(t *testing.T, s fleet.Store) {
		record := func(r fleet.Replica, justStarted bool) bool {
			ok, err := s.RecordHeartbeat(t.Context(), r, justStarted)
			require.NoError(t, err)
			return ok
		}
		list := func() []fleet.Replica {
			all, err := s.Replicas(t.Context())
			require.NoError(t, err)
			return all
		}
		require.Empty(t, list())
		one := fleet.Replica{Name: "one", Machine: "m1", Address: "10.0.0.1:8105", Version: "v1"}
		two := fleet.Replica{Name: "two", Machine: "m2"}
		require.True(t, record(two, true))
		require.True(t, record(one, true))
		all := list()
		require.Len(t, all, 2)
		first := all[0]
		require.False(t, first.StartedAt.IsZero())
		require.Equal(t, first.StartedAt, first.HeartbeatAt)
		first.StartedAt, first.HeartbeatAt = one.StartedAt, one.HeartbeatAt
		require.Equal(t, one, first)
		require.Equal(t, "two", all[1].Name)

		one.Version, one.Stopped = "v2", true
		require.True(t, record(one, false))
		changed := list()[0]
		require.Equal(t, all[0].StartedAt, changed.StartedAt)
		require.True(t, changed.HeartbeatAt.After(all[0].HeartbeatAt))
		require.Equal(t, "v2", changed.Version)
		require.True(t, changed.Stopped)
		require.True(t, record(one, true))
		require.True(t, list()[0].StartedAt.After(changed.HeartbeatAt), "a server that starts again must get a new start time")

		for _, name := range []string{"one", "never"} {
			require.NoError(t, s.ForgetReplica(t.Context(), name))
		}
		require.False(t, record(one, false))
		require.False(t, record(one, true))
		require.Len(t, list(), 1)
		one.Machine = "m3"
		require.True(t, record(one, true), "a server on another machine must be able to use the name of a forgotten server")
		require.True(t, record(fleet.Replica{Name: "never", Machine: "m4"}, true))
		require.Len(t, list(), 3)
	}},
}
