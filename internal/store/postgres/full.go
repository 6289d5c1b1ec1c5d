package postgres

import (
	"sync"
	"time"
)

// fullRetryInterval is how long the store refuses additions after the database has reported a full disk. Then it tries the next one.
const fullRetryInterval = time.Second

// fullReportTime is how long Full still reports a full disk if no write tries to add anything. Without such a write, nobody
// knows whether there is space again.
const fullReportTime = 5 * time.Minute

// diskState records whether the database's disk is full.
type diskState struct {
	mu                sync.Mutex
	fullSince, fullAt time.Time // when the disk was found full for the first and the last time; zero if there is space
}

// recordWrite records the result of a write: err if it has failed, or nil. added means that the write has added something. Only such
// a write shows that there is space again, because others may succeed on a full disk. It must end later than fullRetryInterval after the
// last failure, because it may have begun before the disk was full.
func (d *diskState) recordWrite(err error, added bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch now := time.Now(); {
	case errorCode(err) == codeDiskFull:
		if now.Sub(d.fullAt) > fullReportTime {
			d.fullSince = now.UTC()
		}
		d.fullAt = now
	case err == nil && added && now.Sub(d.fullAt) > fullRetryInterval:
		d.fullSince, d.fullAt = time.Time{}, time.Time{}
	}
}

// fullWithin returns when the disk was first found full, if it was also found full at most age ago.
func (d *diskState) fullWithin(age time.Duration) (since time.Time, full bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.fullAt) > age {
		return time.Time{}, false
	}
	return d.fullSince, true
}

// Full reports whether the store accepts only writes that end or remove things, see fleet.Store.
func (s *Store) Full() (since time.Time, full bool) { return s.disk.fullWithin(fullReportTime) }
