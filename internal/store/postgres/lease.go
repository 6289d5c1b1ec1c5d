package postgres

import (
	"context"
	"time"
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
	leaseOwners  = `SELECT key, owner FROM leases WHERE starts_with(key, $1) AND until > clock_timestamp()`
	releaseLease = `DELETE FROM leases WHERE key = $1 AND owner = $2`
)

// Lease takes or renews a lease in one statement, see fleet.Store.
func (s *Store) Lease(ctx context.Context, key, owner string, ttl time.Duration) (epoch int64, err error) {
	err = s.one(ctx, func(row scanner) error { return row.Scan(&epoch) }, takeLease, key, owner, ttl.Microseconds())
	return epoch, err
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

// Release gives a lease back, see fleet.Store.
func (s *Store) Release(ctx context.Context, key, owner string) error {
	return s.one(ctx, nil, releaseLease, key, owner)
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
