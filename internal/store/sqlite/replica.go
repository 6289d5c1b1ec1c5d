package sqlite

import (
	"context"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

const (
	putHeartbeat = `INSERT INTO replicas (name, machine, address, version, started_at, heard_at, stopped, forgotten)
		VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6, 0)
		ON CONFLICT (name) DO UPDATE SET machine = excluded.machine, address = excluded.address, version = excluded.version,
			started_at = CASE WHEN ?7 THEN excluded.started_at ELSE started_at END, heard_at = excluded.heard_at,
			stopped = excluded.stopped, forgotten = 0
		WHERE NOT forgotten OR machine <> excluded.machine
		RETURNING 1`
	forgetReplica = `INSERT INTO replicas (name, machine, address, version, started_at, heard_at, stopped, forgotten)
		VALUES (?1, '', '', '', ?2, ?2, 0, 1)
		ON CONFLICT (name) DO UPDATE SET forgotten = 1`
)

// RecordHeartbeat records that a server is alive, see fleet.Store. It uses the machine's clock, as AcquireLease does.
func (s *Store) RecordHeartbeat(ctx context.Context, r fleet.Replica, justStarted bool) (ok bool, err error) {
	err = s.write(ctx, func(c *conn) error {
		t := &baseTx{ctx: ctx, conn: c}
		n, err := record.QueryFirst(t, record.ScanInt, putHeartbeat, r.Name, r.Machine, r.Address, r.Version, micros(time.Now()), r.Stopped, justStarted)
		ok = n > 0
		return err
	})
	return ok, err
}

// Replicas returns the servers, see fleet.Store.
func (s *Store) Replicas(ctx context.Context) (replicas []fleet.Replica, err error) {
	err = s.read(ctx, func(c *conn) error {
		replicas, err = record.QueryAll(&baseTx{ctx: ctx, conn: c}, record.ScanReplica, record.SelectReplicas)
		return err
	})
	return replicas, err
}

// ForgetReplica forgets a server, see fleet.Store.
func (s *Store) ForgetReplica(ctx context.Context, name string) error {
	return s.write(ctx, func(c *conn) error {
		_, err := c.exec(ctx, forgetReplica, name, micros(time.Now()))
		return contextError(ctx, err)
	})
}
