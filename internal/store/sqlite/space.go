package sqlite

import (
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Space of the disk that is kept for the store, in bytes, at most; less on a small disk.
const (
	reserveMost = 8 << 20 // for the file and for its log each
	marginMost  = 4 << 20 // with less than this left, the store counts as full
	smallest    = 16      // both are at most this part of the disk
	spaceEvery  = 100 * time.Millisecond
)

// space watches how much room there is on the store's disk. Room for the store's own files is allocated ahead, beyond
// their ends, so that no other program can take it. While the disk has next to nothing left for others, the store takes
// only what ends and removes things.
type space struct {
	path string
	free func(dir string) (free, total uint64, err error)

	mu     sync.Mutex
	looked time.Time
	since  time.Time // when it was first found full; zero: it is not
}

// full says whether the disk is full, and since when.
func (s *space) full() (since time.Time, full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); now.Sub(s.looked) >= spaceEvery {
		s.looked = now
		switch free, total, err := s.free(filepath.Dir(s.path)); {
		case err != nil: // nobody knows: writes will tell
			s.since = time.Time{}
		case free >= min(marginMost, total/(4*smallest)):
			s.since = time.Time{}
		case s.since.IsZero():
			s.since = now.UTC()
		}
	}
	return s.since, !s.since.IsZero()
}

// reserve allocates room beyond what the files use. It is an effort: where the disk does not do that, or has no room
// left, the files have what they have.
func (s *space) reserve() {
	_, total, err := s.free(filepath.Dir(s.path))
	if err != nil {
		return
	}
	size := int64(min(reserveMost, total/smallest))
	if info, err := os.Stat(s.path); err == nil {
		allocate(s.path, info.Size()+size)
	}
	allocate(s.path+"-wal", size) // it is written from its beginning again and again
}

// Full says whether the store takes only what ends and removes things, see fleet.Store.
func (s *Store) Full() (since time.Time, full bool) { return s.space.full() }
