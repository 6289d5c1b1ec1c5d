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
	begun := c.local()
	err := pool.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&dbTime)
	if err == nil {
		c.adjust(begun, dbTime)
	}
	return err
}

// adjust corrects the clock after a statement that has read the database's time. The statement was sent at begun, by the
// local clock, and has just been answered, so the database's clock showed dbTime between these two moments. adjust moves
// the clock no further than that requires, so even a slow answer cannot make it worse.
func (c *clock) adjust(begun, dbTime time.Time) {
	ended := c.local()
	localTime := begun.Add(ended.Sub(begun) / 2)
	if c.last.Load() != nil {
		switch {
		case c.databaseTime(begun).After(dbTime):
			localTime = begun
		case c.databaseTime(ended).Before(dbTime):
			localTime = ended
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
