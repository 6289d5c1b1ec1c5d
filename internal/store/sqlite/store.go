// Package sqlite keeps the fleet in one SQLite file: the embedded default of fleet.Store.
//
// The file is in WAL mode. One connection writes, in transactions that take the write lock when they begin, so that
// what a transaction has read cannot change under it; several connections read meanwhile. Other processes may use the
// same file at the same time. What has been committed survives the end of the process, kill -9 included; a crash of
// the whole machine can lose the last commits, never tear one.
//
// A call on a transaction that failed fails the transaction, also when its fn goes on and returns nil.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"runtime"
	"sync"
	"time"

	_ "modernc.org/sqlite" // the driver

	"fleet/internal/fleet"
)

// ErrClosed is what every call on a closed store answers.
var ErrClosed = errors.New("the store is closed")

var _ fleet.Store = (*Store)(nil)

// Config holds what may be left out.
type Config struct {
	// BusyTimeout is how long a write waits for the write lock while other processes hold it; 0 means 30 s.
	BusyTimeout time.Duration
	// MaxPages is how many pages the file may have; 0 means as many as the disk takes.
	MaxPages int
	// Free returns how much of a directory's disk is left and how large it is, in bytes; nil asks the disk.
	Free func(dir string) (free, total uint64, err error)
}

// Store is a fleet.Store in a SQLite file. It is safe for concurrent use.
type Store struct {
	path   string
	cfg    Config
	dbs    []*sql.DB
	writer *pool
	reader *pool
	pulse  *pulse
	copier *checkpointer
	space  *space

	mu     sync.Mutex
	closed bool
	calls  sync.WaitGroup // under way
}

// Open opens the store in the file, which is made (with its directory, for this user alone) when there is none, and
// brings its schema up to date. A file that a newer Fleet has written is an error.
func Open(ctx context.Context, path string, cfg Config) (*Store, error) {
	if cfg.BusyTimeout <= 0 {
		cfg.BusyTimeout = 30 * time.Second
	}
	s := &Store{path: path, cfg: cfg}
	if err := s.open(ctx); err != nil {
		_ = s.closePools() // what went wrong before is what matters
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("open the store %s: %w", path, advise(err))
	}
	return s, nil
}

func (s *Store) open(ctx context.Context) error {
	path, err := s.makeFile(ctx)
	if err != nil {
		return err
	}
	s.space = &space{path: path, free: s.cfg.Free}
	if s.space.free == nil {
		s.space.free = freeOf
	}
	writing := url.Values{
		"_busy_timeout": {"250"}, // short: nothing interrupts SQLite's own waiting, so retry does the rest
		"_txlock":       {"immediate"},
		"_pragma":       {"wal_autocheckpoint(16384)"}, // pages: the checkpointer comes first
	}
	if s.cfg.MaxPages > 0 {
		writing.Add("_pragma", fmt.Sprintf("max_page_count(%d)", s.cfg.MaxPages))
	}
	reading := url.Values{"_busy_timeout": {"5000"}, "_query_only": {"1"}}
	readers := max(4, runtime.GOMAXPROCS(0))

	w, err := s.db(path, writing, 1)
	if err != nil {
		return err
	}
	if err := s.retry(ctx, func() error { return check(ctx, w) }); err != nil {
		return err
	}
	if err := s.retry(ctx, func() error { return migrate(ctx, w) }); err != nil {
		return err
	}
	r, err := s.db(path, reading, readers+1) // one more for the pulse
	if err != nil {
		return err
	}
	s.writer, s.reader = newPool(w, 1), newPool(r, readers)
	if s.pulse, err = newPulse(ctx, r); err != nil {
		return err
	}
	beside, err := s.db(path, url.Values{"_busy_timeout": {"250"}}, 1)
	if err == nil {
		s.space.reserve()
		s.copier = newCheckpointer(beside, path, s.space.reserve)
	}
	return err
}

// db returns connections to the file, at most n, none of them open yet.
func (s *Store) db(path string, params url.Values, n int) (*sql.DB, error) {
	params.Set("_journal_mode", "WAL")
	params.Set("_synchronous", "NORMAL") // in WAL mode enough for a commit to survive the process
	params.Set("_foreign_keys", "1")
	params.Set("_dqs", "0")
	params.Add("_pragma", "temp_store(memory)")
	params.Add("_pragma", "journal_size_limit(67108864)")
	u := url.URL{Scheme: "file", Path: path, RawQuery: params.Encode()}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	s.dbs = append(s.dbs, db)
	return db, nil
}

// enter starts a call, and leave ends it; Close waits in between.
func (s *Store) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	s.calls.Add(1)
	return nil
}

func (s *Store) leave() { s.calls.Done() }

// Close waits for the calls under way and closes the file. Closing twice is no error. Channels of subscribers stay
// open, and silent.
func (s *Store) Close() error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.mu.Unlock()
	s.calls.Wait()
	if !first {
		return nil
	}
	s.pulse.close()
	s.copier.close()
	return s.closePools()
}

func (s *Store) closePools() error {
	var errs []error
	for _, p := range []*pool{s.reader, s.writer} {
		if p != nil {
			errs = append(errs, p.close())
		}
	}
	for _, db := range s.dbs {
		errs = append(errs, db.Close())
	}
	return errors.Join(errs...)
}
