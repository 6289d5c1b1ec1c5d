package postgres

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestClock checks how far an answer of the database moves a clock that shows the wrong time.
func TestClock(t *testing.T) {
	t.Parallel()
	zero := time.Unix(1_000_000, 0)
	for name, c := range map[string]struct {
		ahead time.Duration // how far the clock is ahead before the answer
		read  time.Duration // when the database read its clock; the statement took ten seconds
		want  time.Duration // how far the clock is ahead afterwards
	}{
		"right":                           {0, 5 * time.Second, 0},
		"may be right":                    {3 * time.Second, 5 * time.Second, 3 * time.Second},
		"ahead, read at the end":          {time.Hour, 10 * time.Second, 10 * time.Second},
		"a bit ahead, read at once":       {time.Millisecond, 0, 0},
		"behind, read at once":            {-time.Hour, 0, -10 * time.Second},
		"a bit behind, read at the end":   {-time.Millisecond, 10 * time.Second, 0},
		"a bit ahead, read in the middle": {time.Millisecond, 5 * time.Second, time.Millisecond},
		"far behind, read near the end":   {-time.Hour, 9 * time.Second, -time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			local := zero
			clk := newClock(func() time.Time { return local })
			clk.adjust(zero, zero.Add(c.ahead))
			begun := local
			local = local.Add(10 * time.Second)
			clk.adjust(begun, begun.Add(c.read))
			require.Equal(t, c.want, clk.databaseTime(local).Sub(local))
		})
	}
}
