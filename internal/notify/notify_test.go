package notify_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/notify"
)

func TestSubscribers(t *testing.T) {
	t.Parallel()
	var s notify.Subscribers
	s.Notify() // there is no subscription yet
	one, cancelOne := s.Subscribe()
	two, cancelTwo := s.Subscribe()
	require.Equal(t, 2, s.Len())
	require.Empty(t, one, "a new subscription must not get earlier notifications")
	s.Notify()
	s.Notify()
	<-one
	require.Empty(t, one, "two notifications before a receive must count as one")
	cancelOne()
	cancelOne()
	s.Notify()
	require.Empty(t, one)
	<-two
	cancelTwo()
	require.Zero(t, s.Len())
}
