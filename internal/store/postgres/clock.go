package postgres

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// clock shows the database's time without asking the database. It needs no correct clock on this machine: it adds the
// time that has passed here since the last measurement.
type clock struct {
	local func() time.Time
	last  atomic.Pointer[measurement]
}

// measurement has one moment by both clocks.
type measurement struct{ here, there time.Time }

func newClock(local func() time.Time) *clock {
	if local == nil {
		local = time.Now
	}
	return &clock{local: local}
}

// measure asks the database for its time.
func (c *clock) measure(ctx context.Context, pool *pgxpool.Pool) error {
	var there time.Time
	begun := c.local()
	err := pool.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&there)
	if err == nil {
		c.set(begun, there)
	}
	return err
}

// set corrects the clock. A statement that was sent at begun, by the local clock, and has just been answered has read the
// time there from the database, so the right clock shows that time between these two moments. set moves the clock no
// further than that requires: then even a slow answer cannot make it worse.
func (c *clock) set(begun, there time.Time) {
	ended := c.local()
	here := begun.Add(ended.Sub(begun) / 2)
	if c.last.Load() != nil {
		switch {
		case c.at(begun).After(there):
			here = begun
		case c.at(ended).Before(there):
			here = ended
		default:
			return
		}
	}
	c.last.Store(&measurement{here: here, there: there})
}

func (c *clock) at(here time.Time) time.Time {
	m := c.last.Load()
	return m.there.Add(here.Sub(m.here))
}

// Now returns the database's time, see fleet.Store.
func (s *Store) Now() time.Time { return s.clock.at(s.clock.local()) }
