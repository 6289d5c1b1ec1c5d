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
func (f *diskState) recordWrite(err error, added bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch now := time.Now(); {
	case errorCode(err) == codeDiskFull:
		if now.Sub(f.fullAt) > fullReportTime {
			f.fullSince = now.UTC()
		}
		f.fullAt = now
	case err == nil && added && now.Sub(f.fullAt) > fullRetryInterval:
		f.fullSince, f.fullAt = time.Time{}, time.Time{}
	}
}

// fullWithin returns when the disk was first found full, if it was also found full within d.
func (f *diskState) fullWithin(d time.Duration) (since time.Time, full bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.fullAt) > d {
		return time.Time{}, false
	}
	return f.fullSince, true
}

// Full reports whether the store accepts only writes that end or remove things, see fleet.Store.
func (s *Store) Full() (since time.Time, full bool) { return s.disk.fullWithin(fullReportTime) }
