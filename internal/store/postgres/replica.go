package postgres

import (
	"context"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

const (
	// statement_timestamp() gives the same time for both columns. Two calls of clock_timestamp() would differ.
	putHeartbeat = `INSERT INTO replicas AS r (name, machine, address, version, started_at, heard_at, stopped, forgotten)
		VALUES ($1, $2, $3, $4, statement_timestamp(), statement_timestamp(), $5, false)
		ON CONFLICT (name) DO UPDATE SET machine = excluded.machine, address = excluded.address, version = excluded.version,
			started_at = CASE WHEN $6 THEN excluded.started_at ELSE r.started_at END, heard_at = excluded.heard_at,
			stopped = excluded.stopped, forgotten = false
		WHERE NOT r.forgotten OR r.machine <> excluded.machine
		RETURNING clock_timestamp()`
	forgetReplica = `INSERT INTO replicas (name, machine, address, version, started_at, heard_at, stopped, forgotten)
		VALUES ($1, '', '', '', clock_timestamp(), clock_timestamp(), false, true)
		ON CONFLICT (name) DO UPDATE SET forgotten = true`
)

// RecordHeartbeat records that a server is alive, see fleet.Store. If it has done so, it also corrects the store's clock.
func (s *Store) RecordHeartbeat(ctx context.Context, r fleet.Replica, justStarted bool) (ok bool, err error) {
	var now time.Time
	start := s.clock.local()
	err = s.runStatement(ctx, s.sidePool, func(row scanner) error { ok = true; return row.Scan(&now) }, putHeartbeat, r.Name, r.Machine, r.Address, r.Version, r.Stopped, justStarted)
	if ok && err == nil {
		s.clock.adjust(start, now)
	}
	return ok, err
}

// Replicas returns the servers, see fleet.Store.
func (s *Store) Replicas(ctx context.Context) (all []fleet.Replica, err error) {
	err = s.runStatement(ctx, s.sidePool, appendTo(&all, record.ScanReplica), record.SelectReplicas)
	return all, err
}

// ForgetReplica forgets a server, see fleet.Store.
func (s *Store) ForgetReplica(ctx context.Context, name string) error {
	return s.runStatement(ctx, s.sidePool, nil, forgetReplica, name)
}
