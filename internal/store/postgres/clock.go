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
	var dbTime time.Time
	start := c.local()
	err := pool.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&dbTime)
	if err == nil {
		c.adjust(start, dbTime)
	}
	return err
}

// adjust corrects the clock after a statement that has read the database's time. The statement was sent at start, by the
// local clock, and has just been answered, so the database's clock showed dbTime between these two moments. adjust moves
// the clock no further than that requires, so even a slow answer cannot make it worse.
func (c *clock) adjust(start, dbTime time.Time) {
	end := c.local()
	localTime := start.Add(end.Sub(start) / 2)
	if c.last.Load() != nil {
		switch {
		case c.databaseTime(start).After(dbTime):
			localTime = start
		case c.databaseTime(end).Before(dbTime):
			localTime = end
		default:
			return
		}
	}
	c.last.Store(&measurement{local: localTime, database: dbTime})
}

// databaseTime returns the database's time at the moment when the local clock shows localTime.
func (c *clock) databaseTime(localTime time.Time) time.Time {
	m := c.last.Load()
	return m.database.Add(localTime.Sub(m.local))
}

// Now returns the database's time, see fleet.Store.
func (s *Store) Now() time.Time { return s.clock.databaseTime(s.clock.local()) }
