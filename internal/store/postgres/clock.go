package postgres

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// clock shows the database's time without a query. The clock of this machine may be wrong: clock only adds the time that has passed
// on this machine since the last measurement.
type clock struct {
	local func() time.Time
	last  atomic.Pointer[measurement]
}

// measurement is one moment, as shown by both clocks.
type measurement struct{ local, database time.Time }

func newClock(local func() time.Time) *clock {
	if local == nil {
		local = time.Now
	}
	return &clock{local: local}
}

// measure asks the database for its time.
func (c *clock) measure(ctx context.Context, pool *pgxpool.Pool) error {
	var read time.Time
	begun := c.local()
	err := pool.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&read)
	if err == nil {
		c.adjust(begun, read)
	}
	return err
}

// adjust corrects the clock after a statement that has read the database's time. The statement was sent at begun, by the
// local clock, and has just been answered, so the database's clock showed that time between these two moments. adjust moves
// the clock no further than that requires, so even a slow answer cannot make it worse.
func (c *clock) adjust(begun, read time.Time) {
	ended := c.local()
	here := begun.Add(ended.Sub(begun) / 2)
	if c.last.Load() != nil {
		switch {
		case c.databaseTime(begun).After(read):
			here = begun
		case c.databaseTime(ended).Before(read):
			here = ended
		default:
			return
		}
	}
	c.last.Store(&measurement{local: here, database: read})
}

// databaseTime returns the database's time at the moment when the local clock shows here.
func (c *clock) databaseTime(here time.Time) time.Time {
	m := c.last.Load()
	return m.database.Add(here.Sub(m.local))
}

// Now returns the database's time, see fleet.Store.
func (s *Store) Now() time.Time { return s.clock.databaseTime(s.clock.local()) }
