package sqlite

import (
	"context"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

const (
	renewLease         = `UPDATE leases SET until = ? WHERE key = ? AND owner = ? AND epoch > 0 RETURNING epoch`
	countForeignLeases = `SELECT count(*) FROM leases WHERE key = ? AND owner <> ? AND until > ?`
	incrementEpoch     = `UPDATE lease_epochs SET n = n + 1 RETURNING n`
	takeLease          = `INSERT INTO leases (key, owner, until, epoch) VALUES (?, ?, ?, ?)
		ON CONFLICT (key) DO UPDATE SET owner = excluded.owner, until = excluded.until, epoch = excluded.epoch`
	renewLeases       = `UPDATE leases SET until = max(until, ?) WHERE owner = ? AND key ` + inList + ` RETURNING key, epoch`
	selectLeaseOwners = `SELECT key, owner FROM leases WHERE instr(key, ?) = 1 AND until > ?`
	releaseLease      = `DELETE FROM leases WHERE key = ? AND owner = ?`
	countHeldLeases   = `SELECT count(*) FROM leases WHERE key = ? AND epoch = ?`
)

// AcquireLease takes or renews a lease, see fleet.Store. It uses the machine's clock and not Config.Clock. All processes that use the
// file share the machine's clock.
func (s *Store) AcquireLease(ctx context.Context, key, owner string, ttl time.Duration) (epoch int64, err error) {
	err = s.writeTx(asBackground(ctx, key), func(t *baseTx) error {
		now := time.Now()
		until := micros(now.Add(ttl))
		if epoch, err = record.QueryFirst(t, record.ScanInt64, renewLease, until, key, owner); err != nil || epoch > 0 {
			return err
		}
		if valid, err := record.QueryFirst(t, record.ScanInt, countForeignLeases, key, owner, micros(now)); err != nil || valid > 0 {
			return err
		}
		if epoch, err = record.QueryFirst(t, record.ScanInt64, incrementEpoch); err != nil {
			return err
		}
		_, err = t.conn.exec(ctx, takeLease, key, owner, until, epoch)
		return contextError(ctx, err)
	})
	return epoch, err
}

// RenewLeases renews leases of an owner in one statement, see fleet.Store.
func (s *Store) RenewLeases(ctx context.Context, owner string, ttl time.Duration, keys []string) (epochs map[string]int64, err error) {
	err = s.write(ctx, func(c *conn) error {
		epochs = map[string]int64{}
		t := &baseTx{ctx: ctx, conn: c}
		return t.forEachRow(record.ScanInto(epochs), renewLeases, micros(time.Now().Add(ttl)), owner, jsonList(keys))
	})
	return epochs, err
}

// Leases returns the owners of the valid leases whose keys have the prefix, see fleet.Store.
func (s *Store) Leases(ctx context.Context, prefix string) (owners map[string]string, err error) {
	owners = map[string]string{}
	err = s.read(ctx, func(c *conn) error {
		t := &baseTx{ctx: ctx, conn: c}
		return t.forEachRow(record.ScanInto(owners), selectLeaseOwners, prefix, micros(time.Now()))
	})
	return owners, err
}

// ReleaseLease releases a lease, see fleet.Store.
func (s *Store) ReleaseLease(ctx context.Context, key, owner string) error {
	return s.write(asBackground(ctx, key), func(c *conn) error {
		_, err := c.exec(ctx, releaseLease, key, owner)
		return contextError(ctx, err)
	})
}

// asBackground returns a context with a lease. turn.Queue treats a call with such a context as a background call, which
// foreground calls may overtake.
func asBackground(ctx context.Context, key string) context.Context {
	return fleet.WithLease(ctx, fleet.Lease{Key: key})
}

// checkLease returns ErrLeaseLost if the context of the transaction has a lease that its holder has lost.
func (t *baseTx) checkLease() error {
	l, ok := fleet.LeaseFrom(t.ctx)
	if !ok {
		return nil
	}
	if n, err := record.QueryFirst(t, record.ScanInt, countHeldLeases, l.Key, l.Epoch); err != nil || n > 0 {
		return err
	}
	return fleet.ErrLeaseLost
}
