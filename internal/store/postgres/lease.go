package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"fleet/internal/store/record"
)

// Leases use the database's clock. A statement reads it after it has locked the row. So a wait for the lock does not shorten the new
// lease, and a lease that expires during the wait counts as expired.
const (
	takeLease = `INSERT INTO leases AS l (key, owner, until, epoch)
		VALUES ($1, $2, clock_timestamp() + $3::bigint * interval '1 microsecond', nextval('lease_epochs'))
		ON CONFLICT (key) DO UPDATE SET owner = excluded.owner, until = clock_timestamp() + $3::bigint * interval '1 microsecond',
			epoch = CASE WHEN l.owner = excluded.owner THEN l.epoch ELSE nextval('lease_epochs') END
		WHERE l.owner = excluded.owner OR l.until <= clock_timestamp()
		RETURNING epoch`
	renewLeases = `UPDATE leases SET until = greatest(until, clock_timestamp() + $2::bigint * interval '1 microsecond')
		WHERE owner = $1 AND key = ANY($3) RETURNING key, epoch`
	// takeFreeLeases takes leases that nobody has, and returns epoch 0 for leases that another owner holds. It does not wait for
	// transactions that lock a lease. It returns no row for other leases, such as expired ones and those that the owner already has.
	takeFreeLeases = `WITH asked AS (SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[]) AS a (key, owner, ttl)),
		taken AS (INSERT INTO leases (key, owner, until, epoch)
			SELECT key, owner, clock_timestamp() + ttl * interval '1 microsecond', nextval('lease_epochs')
			FROM asked WHERE NOT EXISTS (SELECT FROM leases AS l WHERE l.key = asked.key) ORDER BY key
			ON CONFLICT DO NOTHING RETURNING key, owner, epoch)
		SELECT key, owner, epoch FROM taken
		UNION ALL SELECT a.key, a.owner, 0 FROM asked AS a JOIN leases AS l ON l.key = a.key WHERE l.owner <> a.owner AND l.until > clock_timestamp()`
	// releaseFreeLeases releases the leases that no transaction locks, and returns them.
	releaseFreeLeases = `DELETE FROM leases WHERE (key, owner) IN (
			SELECT l.key, l.owner FROM unnest($1::text[], $2::text[]) AS a (key, owner) JOIN leases AS l ON l.key = a.key AND l.owner = a.owner
			FOR UPDATE OF l SKIP LOCKED)
		RETURNING key, owner, 0`
	selectLeaseOwners = `SELECT key, owner FROM leases WHERE starts_with(key, $1) AND until > clock_timestamp()`
	releaseLease      = `DELETE FROM leases WHERE key = $1 AND owner = $2`
)

// leaseCall is a request to take or to release a lease.
type leaseCall struct {
	key, owner string
	ttl        time.Duration
	isRelease  bool
	epoch      int64 // the result; 0 if another owner has the lease
	done       bool  // the shared transaction has done the call
}

// leaseTries is how often a call of AcquireLease is tried together with others before it is done alone. If several replicas request the
// same lease at the same time, the first try can fail because another replica is just taking it. The second try then
// finds that the other replica holds it.
const leaseTries = 2

// AcquireLease takes or renews a lease, see fleet.Store. Concurrent calls share a transaction, except calls that must wait for
// a lease.
func (s *Store) AcquireLease(ctx context.Context, key, owner string, ttl time.Duration) (epoch int64, err error) {
	for range leaseTries {
		c := &leaseCall{key: key, owner: owner, ttl: ttl}
		if err := s.leaseBatcher.do(ctx, c); err != nil {
			return 0, err // the call may still be running
		}
		if c.done {
			return c.epoch, nil
		}
	}
	err = s.runStatement(ctx, s.sidePool, func(row scanner) error { return row.Scan(&epoch) }, takeLease, key, owner, ttl.Microseconds())
	return epoch, err
}

// ReleaseLease releases a lease, see fleet.Store. It shares a transaction with concurrent calls unless it must wait.
func (s *Store) ReleaseLease(ctx context.Context, key, owner string) error {
	c := &leaseCall{key: key, owner: owner, isRelease: true}
	if err := s.leaseBatcher.do(ctx, c); err != nil || c.done {
		return err
	}
	return s.runStatement(ctx, s.sidePool, nil, releaseLease, key, owner)
}

// runLeaseCalls runs the calls in one transaction. It leaves calls undone that would have to wait for transactions that lock
// a lease.
func (s *Store) runLeaseCalls(calls []*leaseCall) error {
	if err := s.calls.Begin(); err != nil {
		return err
	}
	defer s.calls.End()
	var releases, requests leaseBatch
	for _, c := range calls {
		if c.isRelease {
			releases.add(c)
		} else {
			requests.add(c)
		}
	}
	return s.retry(context.Background(), func() (again bool, err error) {
		err = withAnswerTimeout(context.Background(), answerTimeout, func(ctx context.Context) error {
			b := &pgx.Batch{} // a batch without BEGIN runs as one transaction
			if len(releases.calls) > 0 {
				b.Queue(releaseFreeLeases, releases.keys, releases.owners).Query(releases.read)
			}
			if len(requests.calls) > 0 {
				b.Queue(takeFreeLeases, requests.keys, requests.owners, requests.ttls).Query(requests.read)
			}
			return s.sidePool.SendBatch(ctx, b).Close()
		})
		return isConflict(err), translate(err)
	})
}

// leaseBatch has the calls of one kind, and the arguments of the statement for them.
type leaseBatch struct {
	calls        map[[2]string]*leaseCall // by key and owner; of calls with the same key and owner, only the last
	keys, owners []string
	ttls         []int64
}

func (b *leaseBatch) add(c *leaseCall) {
	if b.calls == nil {
		b.calls = map[[2]string]*leaseCall{}
	}
	b.calls[[2]string{c.key, c.owner}] = c
	b.keys, b.owners, b.ttls = append(b.keys, c.key), append(b.owners, c.owner), append(b.ttls, c.ttl.Microseconds())
}

// read reads the rows of the statement and sets the results in the calls.
func (b *leaseBatch) read(rows pgx.Rows) error {
	var key, owner string
	var epoch int64
	_, err := pgx.ForEachRow(rows, []any{&key, &owner, &epoch}, func() error {
		c := b.calls[[2]string{key, owner}]
		c.epoch, c.done = epoch, true
		return nil
	})
	return err
}

// RenewLeases renews leases of an owner in one statement, see fleet.Store.
func (s *Store) RenewLeases(ctx context.Context, owner string, ttl time.Duration, keys []string) (map[string]int64, error) {
	epochs := map[string]int64{}
	err := s.runStatement(ctx, s.sidePool, record.ScanInto(epochs), renewLeases, owner, ttl.Microseconds(), keys)
	return epochs, err
}

// Leases returns the owners of the valid leases whose keys have the prefix, see fleet.Store.
func (s *Store) Leases(ctx context.Context, prefix string) (owners map[string]string, err error) {
	owners = map[string]string{}
	err = s.runStatement(ctx, s.sidePool, record.ScanInto(owners), selectLeaseOwners, prefix)
	return owners, err
}
