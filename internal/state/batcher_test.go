package state

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/waittest"
)

// TestBatcher checks that calls during a lookup share the next one, each with its own key, and that the next lookup
// does not return the error of the previous one.
func TestBatcher(t *testing.T) {
	t.Parallel()
	var lookups [][]string
	release, errFirst := make(chan struct{}), errors.New("fail")
	b := NewBatcher(func(_ context.Context, keys []string) (map[string]int, error) {
		slices.Sort(keys)
		if lookups = append(lookups, keys); len(lookups) == 1 {
			<-release
			return nil, errFirst
		}
		return map[string]int{"a": 1, "b": 2}, nil
	})
	var calls sync.WaitGroup
	calls.Go(func() {
		_, err := b.Get(t.Context(), "first")
		require.ErrorIs(t, err, errFirst)
	})
	waitingKeys := func() int {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.next == nil {
			return 0
		}
		return len(b.next.keys)
	}
	waittest.Until(t, "the lookup gives no signal when it begins", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.reading
	})
	for key, want := range map[string]int{"a": 1, "b": 2, "none": 0} {
		for range 3 {
			calls.Go(func() {
				got, err := b.Get(t.Context(), key)
				require.NoError(t, err)
				require.Equal(t, want, got)
			})
		}
	}
	waittest.Until(t, "a waiting call gives no signal", func() bool { return waitingKeys() == 3 })
	close(release)
	calls.Wait()
	require.Equal(t, [][]string{{"first"}, {"a", "b", "none"}}, lookups[:2])
}
