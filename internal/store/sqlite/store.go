// Package sqlite implements fleet.Store in one SQLite file. It is the embedded default.
//
// The file is in WAL mode. One connection writes. Its transactions take the write lock at their start, so that the data
// that a transaction has read cannot change before it commits. Several connections read concurrently. Only one
// process appends events at a time; other processes may read the file or upgrade its schema. Committed data survives the
// end of the process, even by kill -9. A crash of the machine can lose the last commits but never corrupts the file.
//
// If a statement of a transaction fails, the whole transaction fails, even if its fn returns nil.
//
// Package app opens the store, and the core calls it through fleet.Store. The store must not have rules about the
// fleet, except rules that the schema can enforce as constraints. No other package may import a SQLite driver.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	_ "modernc.org/sqlite" // the driver

	"fleet/internal/fleet"
	"fleet/internal/notify"
	"fleet/internal/store/record"
)

// ErrClosed is returned by every call on a closed store.
var ErrClosed = record.ErrClosed

var _ fleet.Store = (*Store)(nil)

// Config holds optional settings.
type Config struct {
	// BusyTimeout is how long a write waits for other processes' write locks; 0 means 30 s.
	BusyTimeout time.Duration
	// MaxPages limits the file's size in pages; 0 means the disk is the limit.
	MaxPages int
	// MaxSizeCheckedAtOpen is the size of the largest file that is checked for damage before it is used, in bytes; 0 means 32 MiB.
	// A larger file is checked while it is used, or before its schema is upgraded.
	MaxSizeCheckedAtOpen int64
	// Logger logs the problems that a check finds while the file is used; nil logs nothing.
	Logger *slog.Logger
	// Clock is the clock that Store.Now reads; nil means time.Now. Leases, notes and heartbeats use time.Now.
	Clock func() time.Time
	// DiskSpace returns the free space and the size of the disk with the directory, in bytes; nil asks the system.
	DiskSpace func(dir string) (free, total uint64, err error)
}

// Store is a fleet.Store in a SQLite file. It is safe for concurrent use.
type Store struct {
	path         string
	file         *os.File // see openFile
	cfg          Config
	dbs          []*sql.DB
	writer       *pool
	reader       *pool
	newestSeq    atomic.Int64 // the Seq of the newest event, or unknownSeq
	subs         notify.Subscribers
	checkpointer *checkpointer
	space        *space
	checker      *checker // nil if the file was checked before its first use
	schemaAtOpen int64    // the version of the schema after Open; greater than this program needs if a newer program has upgraded it

	calls record.Calls
}

// Open opens the store in the file and upgrades its schema. It creates the file and its directory, private to this
// user, if they do not exist. It refuses a file that a newer Fleet has upgraded so that this program cannot work with it; see
// migrate.
func Open(ctx context.Context, path string, cfg Config) (*Store, error) {
	if cfg.BusyTimeout <= 0 {
		cfg.BusyTimeout = 30 * time.Second
	}
	if cfg.MaxSizeCheckedAtOpen <= 0 {
		cfg.MaxSizeCheckedAtOpen = defaultMaxSizeCheckedAtOpen
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Store{path: path, cfg: cfg}
	if err := s.open(ctx); err != nil {
		_ = s.closeAll() // an error here would only be a consequence of the first error
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("open the store %s: %w", path, addDamageAdvice(err))
	}
	return s, nil
}

// Now returns the time of Config.Clock, which is normally this machine's clock; see fleet.Store.
func (s *Store) Now() time.Time { return s.cfg.Clock() }

func (s *Store) open(ctx context.Context) error {
	var err error
	if s.file, err = s.openFile(ctx); err != nil {
		return err
	}
	path := s.file.Name()
	s.space = &space{file: s.file, diskSpace: s.cfg.DiskSpace}
	if s.space.diskSpace == nil {
		s.space.diskSpace = diskSpace
	}
	writeParams := url.Values{
		"_busy_timeout": {"250"}, // in ms; short, because SQLite's waiting cannot be interrupted; retry waits longer
		"_txlock":       {"immediate"},
		"_pragma":       {"wal_autocheckpoint(16384)"}, // in pages; normally the checkpointer copies the log earlier
	}
	if s.cfg.MaxPages > 0 {
		writeParams.Add("_pragma", fmt.Sprintf("max_page_count(%d)", s.cfg.MaxPages))
	}
	readParams := url.Values{"_busy_timeout": {"5000"}, "_query_only": {"1"}}
	checkParams := maps.Clone(readParams)              // without mmap: an unreadable page must be an error of the check, and must not end the process
	readParams.Set("_pragma", "mmap_size(2147418112)") // SQLite's limit; a search reads many pages, and without mmap each read is a system call
	w, err := s.openDB(path, writeParams, 1)
	if err != nil {
		return err
	}
	checkLater, err := s.checkAtOpen(ctx, w)
	if err != nil {
		return err
	}
	if s.schemaAtOpen, err = s.migrate(ctx, w); err != nil {
		return err
	}
	r, err := s.openDB(path, readParams, readerCount())
	if err != nil {
		return err
	}
	s.writer, s.reader = newPool(w, 1), newPool(r, readerCount())
	if err := s.reader.with(ctx, func(c *conn) error {
		seq, err := c.queryInt64(ctx, selectLastSeq)
		s.newestSeq.Store(seq)
		return err
	}); err != nil {
		return err
	}
	checkpointDB, err := s.openDB(path, url.Values{"_busy_timeout": {"250"}}, 1)
	if err != nil {
		return err
	}
	if checkLater {
		c, err := s.openDB(path, checkParams, 1)
		if err != nil {
			return err
		}
		s.checker = newChecker(c, path, s.cfg.Logger)
	}
	s.space.reserve()
	s.checkpointer = newCheckpointer(checkpointDB, path, s.space.reserve)
	return nil
}

// readerCount returns the number of connections for views.
func readerCount() int { return max(4, runtime.GOMAXPROCS(0)) }

// openDB returns a database for the file with at most n connections, none of them open yet.
func (s *Store) openDB(path string, params url.Values, n int) (*sql.DB, error) {
	params.Set("_journal_mode", "WAL")
	params.Set("_synchronous", "NORMAL") // in WAL mode, this is enough for a commit to survive the end of the process
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

// Close waits for pending calls and closes the file. Closing twice is not an error. The channels of subscribers stay
// open, but get no further notifications.
func (s *Store) Close() error {
	if !s.calls.Close() {
		return nil
	}
	s.checker.close()
	s.checkpointer.close()
	return s.closeAll()
}

func (s *Store) closeAll() error {
	var errs []error
	for _, p := range []*pool{s.reader, s.writer} {
		if p != nil {
			errs = append(errs, p.close())
		}
	}
	for _, db := range s.dbs {
		errs = append(errs, db.Close())
	}
	if s.file != nil {
		errs = append(errs, s.file.Close()) // must be after the connections are closed: see openFile
	}
	return errors.Join(errs...)
}
