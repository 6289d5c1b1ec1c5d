package sqlite

import (
	"os"
	"path/filepath"
	"sync"
	"time"
)

const (
	maxReserve        = 8 << 20                // bytes that are reserved for the file, and as many for its log; fewer on small disks
	maxMargin         = 4 << 20                // the store counts as full if fewer bytes are free; on small disks, this limit is lower
	smallDiskFraction = 16                     // on a small disk, 1/16 of the disk is reserved, and 1/64 is the margin
	measureInterval   = 100 * time.Millisecond // how long a measurement of the free space is used
)

// space watches the free space of the store's disk. It allocates disk space for the store's files beyond their ends, so
// that no other program can use this space. While the disk is nearly full, the store accepts only writes that end or
// remove things.
type space struct {
	file      *os.File
	diskSpace func(dir string) (free, total uint64, err error)

	mu         sync.Mutex
	measuredAt time.Time // when the free space was last measured
	since      time.Time // when the disk was first found nearly full; zero if it is not
}

// full reports whether the disk is nearly full, and since when.
func (s *space) full() (since time.Time, full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); now.Sub(s.measuredAt) >= measureInterval {
		s.measuredAt = now
		switch free, total, err := s.diskSpace(filepath.Dir(s.file.Name())); {
		case err != nil: // the free space is unknown; if the disk is full, writes fail
			s.since = time.Time{}
		case free >= min(maxMargin, total/(4*smallDiskFraction)):
			s.since = time.Time{}
		case s.since.IsZero():
			s.since = now.UTC()
		}
	}
	return s.since, !s.since.IsZero()
}

// reserve allocates disk space for the store's files beyond their ends. It has no effect if the file system does not
// support that or has no space left.
func (s *space) reserve() {
	_, total, err := s.diskSpace(filepath.Dir(s.file.Name()))
	if err != nil {
		return
	}
	size := int64(min(maxReserve, total/smallDiskFraction))
	if info, err := s.file.Stat(); err == nil {
		allocate(s.file, info.Size()+size)
	}
	if log, err := os.OpenFile(s.file.Name()+"-wal", os.O_WRONLY, 0); err == nil { // SQLite has no locks on the log, so closing it is safe
		allocate(log, size) // from the beginning of the log, where SQLite starts again after a checkpoint
		_ = log.Close()
	}
}

// Full reports whether the store accepts only writes that end or remove things, see fleet.Store.
func (s *Store) Full() (since time.Time, full bool) { return s.space.full() }
