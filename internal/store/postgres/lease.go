package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// The clock is the database's, and is read when the row is locked.
const (
	takeLease = `INSERT INTO leases AS l (key, owner, until, epoch)
		VALUES ($1, $2, clock_timestamp() + $3::bigint * interval '1 microsecond', nextval('lease_epochs'))
		ON CONFLICT (key) DO UPDATE SET owner = excluded.owner, until = clock_timestamp() + $3::bigint * interval '1 microsecond',
			epoch = CASE WHEN l.owner = excluded.owner THEN l.epoch ELSE nextval('lease_epochs') END
		WHERE l.owner = excluded.owner OR l.until <= clock_timestamp()
		RETURNING epoch`
	renewLeases = `UPDATE leases SET until = greatest(until, clock_timestamp() + $2::bigint * interval '1 microsecond') WHERE owner = $1
		RETURNING key, epoch`
	// takeFree takes leases that nobody has, and finds those that another owner has. It does not wait for transactions that keep a lease.
	// It says nothing about the rest, for example about leases whose time is over.
	takeFree = `WITH asked AS (SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[]) AS a (key, owner, ttl)),
		taken AS (INSERT INTO leases (key, owner, until, epoch)
			SELECT key, owner, clock_timestamp() + ttl * interval '1 microsecond', nextval('lease_epochs')
			FROM asked WHERE NOT EXISTS (SELECT FROM leases AS l WHERE l.key = asked.key) ORDER BY key
			ON CONFLICT DO NOTHING RETURNING key, owner, epoch)
		SELECT key, owner, epoch FROM taken
		UNION ALL SELECT a.key, a.owner, 0 FROM asked AS a JOIN leases AS l ON l.key = a.key WHERE l.owner <> a.owner AND l.until > clock_timestamp()`
	// releaseFree gives leases back for which it need not wait, and returns them.
	releaseFree = `DELETE FROM leases WHERE (key, owner) IN (
			SELECT l.key, l.owner FROM unnest($1::text[], $2::text[]) AS a (key, owner) JOIN leases AS l ON l.key = a.key AND l.owner = a.owner
			FOR UPDATE OF l SKIP LOCKED)
		RETURNING key, owner, 0`
	leaseOwners  = `SELECT key, owner FROM leases WHERE starts_with(key, $1) AND until > clock_timestamp()`
	releaseLease = `DELETE FROM leases WHERE key = $1 AND owner = $2`
)

// leaseCall asks to take a lease, or to give it back.
type leaseCall struct {
	key, owner string
	ttl        time.Duration
	release    bool
	epoch      int64 // the result; 0 if another owner has the lease
	done       bool  // by the shared statements
}

// leaseTries is how often a call is done with others before it is done alone. Where replicas ask for the same lease at the same time, the
// first try may find that another replica is about to have it, and the second that it has it.
const leaseTries = 2

// Lease takes or renews a lease, see fleet.Store. Calls at the same time share a transaction if none of them has to wait for a lease.
func (s *Store) Lease(ctx context.Context, key, owner string, ttl time.Duration) (epoch int64, err error) {
	for range leaseTries {
		c := &leaseCall{key: key, owner: owner, ttl: ttl}
		if err := s.leasing.do(ctx, c); err != nil {
			return 0, err // the call may still be running
		}
		if c.done {
			return c.epoch, nil
		}
	}
	err = s.one(ctx, func(row scanner) error { return row.Scan(&epoch) }, takeLease, key, owner, ttl.Microseconds())
	return epoch, err
}

// Release gives a lease back, see fleet.Store, in a transaction with other calls if it need not wait.
func (s *Store) Release(ctx context.Context, key, owner string) error {
	c := &leaseCall{key: key, owner: owner, release: true}
	if err := s.leasing.do(ctx, c); err != nil || c.done {
		return err
	}
	return s.one(ctx, nil, releaseLease, key, owner)
}

// leaseAll does the calls in one transaction, as far as it need not wait for other transactions that keep a lease.
func (s *Store) leaseAll(calls []*leaseCall) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	var released, taken leaseBatch
	for _, c := range calls {
		if c.release {
			released.add(c)
		} else {
			taken.add(c)
		}
	}
	return s.retry(context.Background(), func() (again bool, err error) {
		err = answering(context.Background(), answerLimit, func(ctx context.Context) error {
			b := &pgx.Batch{} // without a BEGIN it is one transaction
			if len(released.calls) > 0 {
				b.Queue(releaseFree, released.keys, released.owners).Query(released.read)
			}
			if len(taken.calls) > 0 {
				b.Queue(takeFree, taken.keys, taken.owners, taken.ttls).Query(taken.read)
			}
			return s.side.SendBatch(ctx, b).Close()
		})
		return conflict(err), translate(err)
	})
}

// leaseBatch are calls of one kind, also as the arguments of their statement.
type leaseBatch struct {
	calls        map[[2]string]*leaseCall // by key and owner; of equal ones the last
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

// read reads the results of the statement.
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

// RenewLeases renews leases in one statement, see fleet.Store.
func (s *Store) RenewLeases(ctx context.Context, owner string, ttl time.Duration) (map[string]int64, error) {
	epochs := map[string]int64{}
	err := s.one(ctx, func(row scanner) error {
		var key string
		var epoch int64
		err := row.Scan(&key, &epoch)
		epochs[key] = epoch
		return err
	}, renewLeases, owner, ttl.Microseconds())
	return epochs, err
}

// Leases counts leases, see fleet.Store.
func (s *Store) Leases(ctx context.Context, prefix string) (owners map[string]string, err error) {
	owners = map[string]string{}
	err = s.one(ctx, func(row scanner) error {
		var key, owner string
		err := row.Scan(&key, &owner)
		owners[key] = owner
		return err
	}, leaseOwners, prefix)
	return owners, err
}

// one runs a statement that is a transaction of its own and may run twice, and calls f with every row of its result.
func (s *Store) one(ctx context.Context, f func(scanner) error, query string, args ...any) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if f == nil {
		f = func(scanner) error { return nil }
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.retry(ctx, func() (again bool, err error) {
		err = answering(ctx, answerLimit, func(ctx context.Context) error {
			rows, err := s.side.Query(ctx, query, encode(args)...)
			if err != nil {
				return err
			}
			return read(rows, f)
		})
		return conflict(err), translate(err)
	})
}
