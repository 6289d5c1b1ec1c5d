package storetest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

var sizeCases = []testCase{
	{"the size grows with the data", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		before, err := s.Size(t.Context())
		require.NoError(t, err)
		require.Positive(t, before)
		for i := range 20 {
			e := newEvent(fleet.EventTaskOutput, a, strings.Repeat(id("line", i), 10000))
			update(t, s, func(tx fleet.Tx) error { return tx.Append(e) })
		}
		after, err := s.Size(t.Context())
		require.NoError(t, err)
		require.Greater(t, after, before)
	}},

	{"a new store has the schema that the program needs", func(t *testing.T, s fleet.Store) {
		have, want, err := s.Schema(t.Context())
		require.NoError(t, err)
		require.Positive(t, want)
		require.Equal(t, want, have)
	}},
}
