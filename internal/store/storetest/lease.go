package storetest

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

var leaseCases = []testCase{
	{"renewed by its owner, taken by others when it is over", func(t *testing.T, s fleet.Store) {
		second := func(n int) time.Time { return noon.Add(time.Duration(n) * time.Second) }
		require.True(t, lease(t, s, "k", "one", second(0), second(10)))
		require.False(t, lease(t, s, "k", "two", second(9), second(20)))
		require.True(t, lease(t, s, "k", "one", second(9), second(19)), "renewed in time")
		require.False(t, lease(t, s, "k", "two", second(18), second(30)), "the renewal counts")
		require.True(t, lease(t, s, "k", "two", second(19), second(30)), "its time is over")
		require.False(t, lease(t, s, "k", "one", second(20), second(40)), "lost")
		require.True(t, lease(t, s, "k", "two", second(50), second(60)), "late, but nobody took it")
		require.True(t, lease(t, s, "k", "two", second(51), second(52)), "shortened")
		require.True(t, lease(t, s, "k", "one", second(52), second(60)))
	}},

	{"keys have nothing to do with each other", func(t *testing.T, s fleet.Store) {
		require.True(t, lease(t, s, "agent/1", "one", noon, noon.Add(time.Hour)))
		require.True(t, lease(t, s, "agent/2", "two", noon, noon.Add(time.Hour)))
		require.True(t, lease(t, s, "AGENT/1", "two", noon, noon.Add(time.Hour)))
	}},

	{"given back by its owner alone", func(t *testing.T, s fleet.Store) {
		require.NoError(t, s.Release(t.Context(), "k", "one"), "nobody has it")
		require.True(t, lease(t, s, "k", "one", noon, noon.Add(time.Hour)))
		require.NoError(t, s.Release(t.Context(), "k", "two"), "another one's")
		require.False(t, lease(t, s, "k", "two", noon, noon.Add(time.Hour)))
		require.NoError(t, s.Release(t.Context(), "k", "one"))
		require.True(t, lease(t, s, "k", "two", noon, noon.Add(time.Hour)))
	}},

	{"one of many at once has it", func(t *testing.T, s fleet.Store) {
		for round := range 5 {
			var owners atomic.Int32
			now := noon.Add(time.Duration(round) * time.Hour)
			require.Empty(t, together(40, func(i int) error {
				has, err := s.Lease(t.Context(), "k", id("owner", round*100+i), now, now.Add(time.Hour))
				if has {
					owners.Add(1)
				}
				return err
			}))
			require.Equal(t, int32(1), owners.Load())
		}
	}},
}

var noteCases = []testCase{
	{"the last one counts, each key its own", func(t *testing.T, s fleet.Store) {
		at := func(key string) time.Time {
			at, err := s.Noted(t.Context(), key)
			require.NoError(t, err)
			return at
		}
		require.True(t, at("poll").IsZero())
		require.NoError(t, s.Note(t.Context(), "poll", noon))
		require.NoError(t, s.Note(t.Context(), "poll", noon.Add(time.Second)))
		require.NoError(t, s.Note(t.Context(), "POLL", noon))
		require.Equal(t, noon.Add(time.Second), at("poll"))
		require.Equal(t, noon, at("POLL"))
		require.True(t, at("").IsZero())
	}},

	{"nobody is told", func(t *testing.T, s fleet.Store) {
		signal, cancel := s.Subscribe()
		defer cancel()
		for len(signal) > 0 {
			<-signal
		}
		require.NoError(t, s.Note(t.Context(), "poll", noon))
		require.Empty(t, signal)
	}},
}

var secretCases = []testCase{
	{"the first one counts, each name its own", func(t *testing.T, s fleet.Store) {
		secret := func(name, value string) string {
			kept, err := s.Secret(t.Context(), name, []byte(value))
			require.NoError(t, err)
			return string(kept)
		}
		require.Equal(t, "a\x00\xff", secret("one", "a\x00\xff"))
		require.Equal(t, "a\x00\xff", secret("one", "b"))
		require.Equal(t, "b", secret("ONE", "b"))
		require.Equal(t, "a\x00\xff", secret("one", "c"))
	}},

	{"many at once agree", func(t *testing.T, s fleet.Store) {
		var kept [40][]byte
		require.Empty(t, together(len(kept), func(i int) (err error) {
			kept[i], err = s.Secret(t.Context(), "one", []byte(id("value", i)))
			return err
		}))
		for _, value := range kept {
			require.NotEmpty(t, value)
			require.Equal(t, kept[0], value)
		}
	}},
}

func lease(t tb, s fleet.Store, key, owner string, now, until time.Time) bool {
	t.Helper()
	has, err := s.Lease(t.Context(), key, owner, now, until)
	require.NoError(t, err)
	return has
}
