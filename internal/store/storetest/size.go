package storetest

import (
	"encoding/hex"
	"math/rand/v2"
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
		random := rand.NewChaCha8([32]byte{})
		for range 40 { // much that cannot be compressed, because the database may return space of its own meanwhile
			b := make([]byte, 30_000)
			_, _ = random.Read(b)
			e := newEvent(fleet.EventTaskOutput, a, hex.EncodeToString(b))
			update(t, s, func(tx fleet.Tx) error { return tx.Append(e) })
		}
		after, err := s.Size(t.Context())
		require.NoError(t, err)
		require.Greater(t, after, before)
	}},

	{"a new store has the schema that the program needs", func(t *testing.T, s fleet.Store) {
		current, atOpen, err := s.Schema(t.Context())
		require.NoError(t, err)
		require.Positive(t, atOpen)
		require.Equal(t, atOpen, current)
	}},
}
