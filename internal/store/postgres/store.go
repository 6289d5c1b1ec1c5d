// Package postgres keeps the fleet in a Postgres database, which any number of replicas share.
//
// A write transaction takes advisory locks on what it reads by a key or a name, so that none of it changes before the commit,
// and transactions on different agents do not wait for each other. Its events go into an inbox. After the commit, one statement
// at a time moves what is in the inbox into the log and gives it the numbers that readers see, so a row that commits late gets a
// late number and no reader skips it. Update returns when its events are in the log.
//
// Replicas tell each other of commits with notifications, at most one per replica in 20 ms, which are sent after the commit on a
// connection of their own. A lost notification loses nothing. Where a pooler is in the way of LISTEN, replicas poll.
//
// After a failed call on a transaction the whole transaction fails, even if its fn returns nil.
//
// Package app opens it, and the core calls it through the port. It must never have rules about the fleet, except those
// that the schema can enforce as a constraint, and never notify inside a write transaction.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"fleet/internal/fleet"
	"fleet/internal/store/turn"
)

// ErrClosed is returned by every call on a closed store.
var ErrClosed = errors.New("the store is closed")

var _ fleet.Store = (*Store)(nil)

// Config holds optional settings.
type Config struct {
	// Poll makes the store poll for commits of other replicas, without trying to be notified of them.
	Poll bool
	// Logger logs what goes on in the background; nil: nobody does.
	Logger *slog.Logger
}

// These are numbers of connections. A replica has one more to listen with.
const (
	mainConns  = 8 // for updates and for views each, unless the URL has pool_max_conns; so four replicas fit into the default max_connections of 100
	sideConns  = 3 // for leases and notifying, which must not wait for transactions
	stampConns = 1 // for stamping, which must not wait for leases either: every write waits for it
)

// dialTimeout limits how long a connection may take, unless the URL has connect_timeout.
const dialTimeout = 10 * time.Second

// Store is a fleet.Store in a Postgres database. It is safe for concurrent use.
type Store struct {
	log      *slog.Logger
	writer   *pgxpool.Pool         // its connections may all wait for locks
	turns    *turn.Queue[struct{}] // whose turn it is to take one of them
	reader   *pgxpool.Pool
	side     *pgxpool.Pool
	stamping *pgxpool.Pool
	pulse    *pulse
	stamper  *stamper
	leasing  gather[leaseCall]
	full     fullness
	schema   int64 // version that this program needs
	others   int   // transactions that the server can have at the same time

	mu     sync.Mutex
	closed bool
	calls  sync.WaitGroup // pending calls
}

// Open opens the store in the database and upgrades its schema. It refuses a database that a newer Fleet has written.
func Open(ctx context.Context, url string, cfg Config) (_ *Store, err error) {
	s := &Store{log: cfg.Logger}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.leasing.run = s.leaseAll
	defer func() {
		if err != nil {
			s.closePools()
			err = fmt.Errorf("open the store %s: %w", Redact(url), translate(err))
		}
	}()
	if s.writer, err = newPool(ctx, url, 0, keyedSettings); err != nil {
		return nil, err
	}
	s.turns = turn.NewQueue(make([]struct{}, s.writer.Config().MaxConns)...)
	if s.reader, err = newPool(ctx, url, 0, nil); err != nil {
		return nil, err
	}
	if s.side, err = newPool(ctx, url, sideConns, keyedSettings); err != nil {
		return nil, err
	}
	if s.stamping, err = newPool(ctx, url, stampConns, keyedSettings); err != nil {
		return nil, err
	}
	if s.others, err = checkServer(ctx, s.side); err != nil {
		return nil, err
	}
	if s.schema, err = migrate(ctx, s.side); err != nil {
		return nil, err
	}
	if _, err := s.LastSeq(ctx); err != nil {
		return nil, err
	}
	s.pulse = newPulse(s.side, cfg.Poll, s.log)
	s.stamper = newStamper(s.stamping, s.pulse, s.log)
	return s, nil
}

// newPool returns a pool of at most n connections; 0 means what the URL says. It connects when a connection is needed. Each connection
// has sessionSettings and settings, unless the URL says otherwise.
func newPool(ctx context.Context, url string, n int32, settings map[string]string) (*pgxpool.Pool, error) {
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, errors.New("the URL cannot be read: it is like postgres://user:password@host:5432/database") // err may have the password
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
		err := answering(ctx, pingLimit, p.Conn.Ping)
		if errors.Is(err, errNoAnswer) {
			pool.Reset() // the others are likely to be dead too
		}
		return err != nil // then the pool sees that the connection is closed, and takes another one
	}
	if c.ConnConfig.ConnectTimeout == 0 {
		c.ConnConfig.ConnectTimeout = dialTimeout
	}
	c.ConnConfig.DialFunc = dial
	if c.ConnConfig.RuntimeParams["application_name"] == "" {
		c.ConnConfig.RuntimeParams["application_name"] = "fleet"
	}
	c.AfterConnect = func(ctx context.Context, c *pgx.Conn) error { return prepareConn(ctx, c, settings) }
	c.BeforeClose = func(c *pgx.Conn) { // one that is dead would keep its place in the pool for 15 s, waiting for the server's end
		_ = c.PgConn().Conn().SetDeadline(time.Now().Add(pingLimit))
	}
	pool, err = pgxpool.NewWithConfig(ctx, c)
	return pool, err
}

// sessionSettings are for all connections. A transaction of a replica that was paused ends by itself, so that its locks keep nobody waiting
// for long. Compiling a plan (jit) takes longer than any statement here should.
var sessionSettings = map[string]string{
	"default_transaction_isolation":       "read committed",
	"default_transaction_read_only":       "off",
	"jit":                                 "off",
	"idle_in_transaction_session_timeout": "15s",
	"client_min_messages":                 "warning",
}

// keyedSettings are for connections whose statements find their rows by key. The rows of leases, messages and questions come and go, so their
// tables are often empty when the database analyses them. It would then read them whole, and go on with that plan after they have grown.
// One plan is enough for all values, and a connection need not make five to find that out.
var keyedSettings = map[string]string{
	"enable_seqscan":  "off",
	"plan_cache_mode": "force_generic_plan",
}

// prepareConn sets the settings after connecting, because poolers refuse parameters that they do not know.
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

// minVersion is the oldest version of Postgres that is tested, as server_version_num.
const minVersion = 150000

// checkServer returns how many connections the server may have, and an error if it cannot keep a fleet.
func checkServer(ctx context.Context, pool *pgxpool.Pool) (conns int, err error) {
	var version int
	var encoding string
	err = pool.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, current_setting('server_encoding'), current_setting('max_connections')::int`).
		Scan(&version, &encoding, &conns)
	switch {
	case err != nil:
		return 0, err
	case version < minVersion:
		return 0, fmt.Errorf("its server is Postgres %d, which is too old: use version %d or newer", version/10000, minVersion/10000)
	case encoding != "UTF8":
		return 0, fmt.Errorf("the database has the encoding %s: create it with ENCODING 'UTF8'", encoding)
	}
	return conns, nil
}

// enter starts a call and leave ends it. Close waits in between.
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

// Close waits for pending calls and closes the connections. Closing twice is not an error. Subscribers' channels stay open
// without further notifications.
func (s *Store) Close() error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.mu.Unlock()
	s.calls.Wait()
	if !first {
		return nil
	}
	s.stamper.close()
	s.pulse.close()
	s.closePools()
	return nil
}

// replaceConns replaces all connections, after one that has not answered: the others are likely to be dead too.
func (s *Store) replaceConns() {
	for _, p := range []*pgxpool.Pool{s.writer, s.reader, s.side, s.stamping} {
		p.Reset()
	}
}

func (s *Store) closePools() {
	for _, p := range []*pgxpool.Pool{s.writer, s.reader, s.side, s.stamping} {
		if p != nil {
			p.Close()
		}
	}
}
