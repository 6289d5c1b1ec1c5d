package sqlite

import (
	"os"
	"path/filepath"
	"sync"
	"time"
)

// These bound the disk space that is reserved for the store, in bytes. Small disks reserve less.
const (
	reserveMost = 8 << 20 // for the file and its log each
	marginMost  = 4 << 20 // with less than this free, the store counts as full
	smallest    = 16      // both are at most this fraction of the disk
	spaceEvery  = 100 * time.Millisecond
)

// space watches the free space of the store's disk. It allocates space for the store's files beyond their ends, so that
// no other program can take it. While the disk is nearly full, the store accepts only what ends or removes things.
type space struct {
	file *os.File
	free func(dir string) (free, total uint64, err error)

	mu     sync.Mutex
	looked time.Time
	since  time.Time // when the disk was first found full; zero if it is not
}

// full reports whether the disk is full, and since when.
func (s *space) full() (since time.Time, full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); now.Sub(s.looked) >= spaceEvery {
		s.looked = now
		switch free, total, err := s.free(filepath.Dir(s.file.Name())); {
		case err != nil: // the state is unknown; writes will fail if it is full
			s.since = time.Time{}
		case free >= min(marginMost, total/(4*smallest)):
			s.since = time.Time{}
		case s.since.IsZero():
			s.since = now.UTC()
		}
	}
	return s.since, !s.since.IsZero()
}

// reserve allocates space beyond what the files use. It does nothing where the disk does not support that or has no
// space left.
func (s *space) reserve() {
	_, total, err := s.free(filepath.Dir(s.file.Name()))
	if err != nil {
		return
	}
	size := int64(min(reserveMost, total/smallest))
	if info, err := s.file.Stat(); err == nil {
		allocate(s.file, info.Size()+size)
	}
	if log, err := os.OpenFile(s.file.Name()+"-wal", os.O_WRONLY, 0); err == nil { // nobody locks it
		allocate(log, size) // SQLite reuses it from its beginning
		_ = log.Close()
	}
}

// Full reports whether the store accepts only what ends or removes things, see fleet.Store.
func (s *Store) Full() (since time.Time, full bool) { return s.space.full() }
