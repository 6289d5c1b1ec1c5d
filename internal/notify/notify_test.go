package notify_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/notify"
)

func TestSubscribers(t *testing.T) {
	t.Parallel()
	var s notify.Subscribers
	s.Notify() // nobody listens
	one, cancelOne := s.Subscribe()
	two, cancelTwo := s.Subscribe()
	require.Equal(t, 2, s.Len())
	require.Empty(t, one, "what was before the subscription is not notified")
	s.Notify()
	s.Notify()
	<-one
	require.Empty(t, one, "notifications that are not received are merged")
	cancelOne()
	cancelOne()
	s.Notify()
	require.Empty(t, one)
	<-two
	cancelTwo()
	require.Zero(t, s.Len())
}
