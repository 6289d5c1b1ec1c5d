package sqlite_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEventsAreNeverChanged(t *testing.T) {
	t.Parallel()
	s := open(t)
	appendEvent(t, s)
	_, err := openRaw(t, s.path).Exec(`UPDATE events SET text = 'it was not so'`)
	require.ErrorContains(t, err, "an event is never changed")
}
