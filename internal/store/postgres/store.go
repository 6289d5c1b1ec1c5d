// Package postgres keeps the fleet in a Postgres database, which any number of replicas share.
//
// A write transaction takes advisory locks on the rows that it reads by a key or a name, so that these rows cannot
// change before the commit. Transactions on different agents do not wait for each other. The events of a transaction go
// into an inbox. After the commit, one statement at a time moves the events from the inbox into the log and gives them
// the numbers that readers see. So an event that commits late gets a late number, and no reader skips it. Update
// returns when its events are in the log.
//
// Replicas notify each other of commits, at most once in 20 ms for each replica. A notification is sent after the
// commit, on a separate connection. If it is lost, no data is lost. If notifications do not arrive, for example because
// of a pooler, replicas poll.
//
// If a statement of a transaction fails, the whole transaction fails, even if its fn returns nil.
//
// Package app opens the store, and the core calls it through fleet.Store. The store must not have rules about the
// fleet, except rules that the schema can enforce as constraints. It must never notify inside a write transaction.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
	"fleet/internal/store/turn"
)

// ErrClosed is returned by every call on a closed store.
var ErrClosed = record.ErrClosed

var _ fleet.Store = (*Store)(nil)

// Config holds optional settings.
type Config struct {
	// Poll makes the store poll for commits of other replicas instead of listening for notifications.
	Poll bool
	// Logger logs problems of the background work; nil logs nothing.
	Logger *slog.Logger
	// Clock is this machine's clock; nil means time.Now. The store uses it only to measure how much time has passed.
	Clock func() time.Time
}

// These are numbers of connections. A replica has one more connection to listen with.
const (
	// mainConns is the number of connections for updates, and also the number for views, unless the URL has pool_max_conns.
	// With this number, four replicas fit into the default max_connections of 100.
	mainConns  = 8
	sideConns  = 3 // for leases and notifications, which must not wait for transactions
	moverConns = 1 // for moving events: writes wait until their events are moved, so moving must not wait for leases
)

// dialTimeout limits how long connecting may take, unless the URL has connect_timeout.
const dialTimeout = 10 * time.Second

// Store is a fleet.Store in a Postgres database. It is safe for concurrent use.
type Store struct {
	log             *slog.Logger
	clock           *clock
	writer          *pgxpool.Pool         // for updates; all its connections may be waiting for locks
	turns           *turn.Queue[struct{}] // decides which update gets the next connection of writer
	reader          *pgxpool.Pool
	sidePool        *pgxpool.Pool
	moverPool       *pgxpool.Pool
	notifier        *commitNotifier
	mover           *eventMover
	leaseBatcher    batcher[leaseCall]
	disk            diskState
	schemaAtOpen    int64 // the version of the schema after Open; greater than this program needs if a newer program has upgraded it
	maxTransactions int   // how many transactions the server can have at the same time

	calls record.Calls
}

// Open opens the store in the database and upgrades its schema. It refuses a database that a newer Fleet has upgraded so that
// this program cannot work with it; see migrate.
func Open(ctx context.Context, url string, cfg Config) (_ *Store, err error) {
	s := &Store{log: cfg.Logger, clock: newClock(cfg.Clock)}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.leaseBatcher.run = s.runLeaseCalls
	defer func() {
		if err != nil {
			s.closePools()
			err = fmt.Errorf("open the store %s: %w", Redact(url), contextError(ctx, translate(err)))
		}
	}()
	if s.writer, err = newPool(ctx, url, 0, keyedSettings); err != nil {
		return nil, err
	}
	s.turns = turn.NewQueue(make([]struct{}, s.writer.Config().MaxConns)...)
	if s.reader, err = newPool(ctx, url, 0, nil); err != nil {
		return nil, err
	}
	if s.sidePool, err = newPool(ctx, url, sideConns, keyedSettings); err != nil {
		return nil, err
	}
	if s.moverPool, err = newPool(ctx, url, moverConns, keyedSettings); err != nil {
		return nil, err
	}
	maxConns, schema, err := inspectServer(ctx, s.sidePool)
	if err != nil {
		return nil, err
	}
	s.maxTransactions = maxConns
	if s.schemaAtOpen, err = migrate(ctx, s.sidePool, schema); err != nil {
		return nil, err
	}
	if _, err := s.LastSeq(ctx); err != nil {
		return nil, err
	}
	if err := s.clock.measure(ctx, s.sidePool); err != nil {
		return nil, err
	}
	s.notifier = newCommitNotifier(s.sidePool, cfg.Poll, s.log)
	s.mover = newEventMover(s.moverPool, s.notifier, s.log)
	return s, nil
}

// parseProblem says what is wrong with the URL, without its passwords.
func parseProblem(text string, err error) string {
	if _, wrong := url.Parse(text); wrong != nil {
		return "write it like postgres://user:password@host:5432/database" // the error has the URL
	}
	if parse, ok := errors.AsType[*pgconn.ParseConfigError](err); ok && parse.Unwrap() != nil {
		err = parse.Unwrap() // without the URL
	}
	return err.Error()
}

// newPool returns a pool of at most n connections. If n is 0, the URL's pool_max_conns or mainConns is the limit. The
// pool connects when a connection is needed. Each connection has sessionSettings and settings, except those that the
// URL sets.
func newPool(ctx context.Context, url string, n int32, settings map[string]string) (*pgxpool.Pool, error) {
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("the URL cannot be used: %s", parseProblem(url, err))
	}
	switch {
	case n > 0:
		c.MaxConns = n
	case !strings.Contains(url, "pool_max_conns"):
		c.MaxConns = mainConns
	}
	c.MinConns, c.MinIdleConns = 0, 0
	var pool *pgxpool.Pool
	c.ShouldPing = func(ctx context.Context, p pgxpool.ShouldPingParams) bool {
		if p.IdleDuration < pingIdle {
			return false
		}
		err := withAnswerTimeout(ctx, pingTimeout, p.Conn.Ping)
		if errors.Is(err, errNoAnswer) {
			pool.Reset() // the other connections are probably dead too
		}
		return err != nil // a failed ping has closed the connection; the pool then uses another one
	}
	if c.ConnConfig.ConnectTimeout == 0 {
		c.ConnConfig.ConnectTimeout = dialTimeout
	}
	c.ConnConfig.DialFunc = dial
	c.ConnConfig.BuildContextWatcherHandler = abandonHandler
	if c.ConnConfig.RuntimeParams["application_name"] == "" {
		c.ConnConfig.RuntimeParams["application_name"] = "fleet"
	}
	c.AfterConnect = func(ctx context.Context, c *pgx.Conn) error { return prepareConn(ctx, c, settings) }
	c.BeforeClose = func(c *pgx.Conn) { // without this, a dead connection waits 15 s for the server, and keeps its place in the pool
		conn := c.PgConn().Conn()
		time.AfterFunc(pingTimeout, func() { _ = conn.Close() })
	}
	pool, err = pgxpool.NewWithConfig(ctx, c)
	return pool, err
}

// sessionSettings are the settings of all connections. idle_in_transaction_session_timeout ends the transactions of a
// replica that is paused or whose connections were cut, so that others do not wait long for its locks. jit is off, because
// compiling a plan would take longer than any statement here.
var sessionSettings = map[string]string{
	"default_transaction_isolation":       "read committed",
	"default_transaction_read_only":       "off",
	"jit":                                 "off",
	"idle_in_transaction_session_timeout": "5s",
	"client_min_messages":                 "warning",
}

// keyedSettings are for statements that find their rows by key. The tables of leases, messages and questions are often
// empty when the database analyses them. Without enable_seqscan = off, the database would plan to read the whole table, and
// keep this plan after the table has grown. One generic plan is good for all values, so a connection plans each statement
// only once.
var keyedSettings = map[string]string{
	"enable_seqscan":  "off",
	"plan_cache_mode": "force_generic_plan",
}

// prepareConn sets the settings with a statement, and not while connecting, because poolers refuse startup parameters that
// they do not know.
func prepareConn(ctx context.Context, c *pgx.Conn, settings map[string]string) error {
	var b strings.Builder
	for _, group := range []map[string]string{sessionSettings, settings} {
		for name, value := range group {
			if c.Config().RuntimeParams[name] == "" {
				fmt.Fprintf(&b, "SET %s = '%s'; ", name, value)
			}
		}
	}
	_, err := c.Exec(ctx, b.String(), pgx.QueryExecModeSimpleProtocol)
	return err
}

// Close waits for pending calls and closes the connections. Closing twice is not an error. The channels of subscribers
// stay open, but get no further notifications.
func (s *Store) Close() error {
	if !s.calls.Close() {
		return nil
	}
	s.mover.close()
	s.notifier.close()
	s.closePools()
	return nil
}

// replaceConns replaces all connections. It is called after a connection did not answer, because the others are then
// probably dead too, and after a connection led to a standby.
func (s *Store) replaceConns() {
	for _, p := range []*pgxpool.Pool{s.writer, s.reader, s.sidePool, s.moverPool} {
		p.Reset()
	}
}

func (s *Store) closePools() {
	for _, p := range []*pgxpool.Pool{s.writer, s.reader, s.sidePool, s.moverPool} {
		if p != nil {
			p.Close()
		}
	}
}
