package postgres

import (
	"context"
	"errors"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

// These statements remove old rows: the first argument is a time, and the second one the largest number of rows. Most of
// them skip rows that another transaction has locked; a later call removes these rows.
const (
	// pruneEvents looks only at the beginning of the log, because the log is ordered by time. It keeps the newest event.
	pruneEvents = `DELETE FROM events WHERE seq < (SELECT seq FROM sequencer WHERE id = 1) AND seq IN (
			SELECT seq FROM (SELECT seq, time FROM events ORDER BY seq LIMIT $2) AS oldest WHERE time < $1)`
	pruneRequests = `DELETE FROM requests WHERE (principal, id) IN (
			SELECT principal, id FROM requests WHERE created_at < $1 ORDER BY created_at LIMIT $2 FOR UPDATE SKIP LOCKED)`
	pruneTokens = `DELETE FROM tokens WHERE n IN (
			SELECT n FROM tokens WHERE agent_uid <> '' AND revoked_at < $1 ORDER BY revoked_at LIMIT $2 FOR UPDATE SKIP LOCKED)`
	// pruneRefusals removes only refusals. The sums of budgets come from the other entries.
	pruneRefusals = `DELETE FROM budget_ledger WHERE n IN (
			SELECT n FROM budget_ledger WHERE kind = 'refuse' AND at < $1 ORDER BY at LIMIT $2 FOR UPDATE SKIP LOCKED)`
	// pruneBulks removes plans of bulk operations, which contain their results. It reads the time with a regular expression,
	// because ->> fails for a body that contains \u0000.
	pruneBulks = `DELETE FROM resources WHERE kind = '` + string(fleet.BulkKind) + `' AND name IN (
			SELECT name FROM resources WHERE kind = '` + string(fleet.BulkKind) + `' AND to_timestamp(substring(body::text FROM '"at":([0-9]+)')::bigint / 1e6) < $1 LIMIT $2 FOR UPDATE SKIP LOCKED)`
	// pruneLeases removes expired leases, for example leases of crashed servers for deleted agents. Removing them is safe,
	// because no epoch is ever used twice.
	pruneLeases     = `DELETE FROM leases WHERE key IN (SELECT key FROM leases WHERE until < $1 LIMIT $2 FOR UPDATE SKIP LOCKED)`
	pruneDeliveries = `DELETE FROM deliveries WHERE id IN (
			SELECT id FROM deliveries WHERE created_at < $1 ORDER BY created_at LIMIT $2 FOR UPDATE SKIP LOCKED)`
	// pruneReplicas keeps servers that have agents, servers with a lease on their name, which may still run, and forgotten
	// servers, because RecordHeartbeat must not record those again.
	pruneReplicas = `DELETE FROM replicas WHERE name IN (
			SELECT name FROM replicas WHERE heard_at < $1 AND NOT forgotten AND '` + fleet.ReplicaLeasePrefix + `' || name NOT IN (SELECT key FROM leases)
				AND name NOT IN (SELECT split_part(place, '@', 2) FROM agents WHERE deleted_at IS NULL)
			LIMIT $2 FOR UPDATE SKIP LOCKED)`
)

// pruneStatements has the statements for each kind, except fleet.PrunePayloads.
var pruneStatements = map[fleet.PruneKind][]string{
	fleet.PruneHistory:    {pruneEvents, pruneRequests, pruneTokens, pruneRefusals, pruneBulks, pruneLeases, pruneReplicas},
	fleet.PruneAudit:      {pruneAudit},
	fleet.PruneDeliveries: {pruneDeliveries},
}

// Prune removes old rows, see fleet.Store. If a statement fails, Prune still runs the others, so that one row that cannot be read
// does not stop all pruning.
func (s *Store) Prune(ctx context.Context, kind fleet.PruneKind, before time.Time, limit int) (removed int, err error) {
	if kind == fleet.PrunePayloads {
		return s.prunePayloads(ctx, before, limit)
	}
	var errs []error
	for _, query := range pruneStatements[kind] {
		n := 0
		counting := `WITH gone AS (` + query + ` RETURNING 1) SELECT count(*) FROM gone`
		if err := s.runStatement(ctx, s.sidePool, func(row scanner) error { return row.Scan(&n) }, counting, before, limit); err != nil {
			errs = append(errs, err)
			if ctx.Err() != nil || fleet.ReasonOf(err) == fleet.ReasonBackendUnavailable {
				break
			}
		}
		removed += n
	}
	return removed, errors.Join(errs...)
}

const (
	deleteOldAttachments = `DELETE FROM task_attachments WHERE task_id IN (SELECT id FROM tasks WHERE id IN (SELECT task_id FROM task_attachments)
		AND status NOT IN ('pending', 'running') AND ended_at < $1 ORDER BY ended_at LIMIT $2) RETURNING name`
	deleteOldRemains  = `DELETE FROM agent_remains WHERE agent_uid IN (SELECT agent_uid FROM agent_remains WHERE kept_at < $1 ORDER BY kept_at LIMIT $2) RETURNING agent_uid`
	selectOldPayloads = `SELECT id FROM tasks WHERE payload_size > 0 AND NOT payload_removed AND ended_at < $1 ORDER BY ended_at LIMIT $2
		FOR UPDATE SKIP LOCKED`
	deletePayloads      = `DELETE FROM payloads WHERE task_id = ANY($1)`
	markPayloadsRemoved = `UPDATE tasks SET payload_removed = true WHERE id = ANY($1)`
)

// prunePayloads removes old payloads and attachments, and old remains of agents.
func (s *Store) prunePayloads(ctx context.Context, before time.Time, limit int) (removed int, err error) {
	err = s.Update(ctx, func(ftx fleet.Tx) error {
		t := ftx.(*tx) //nolint:forcetypeassert // Update passes a *tx
		ids, err := queryAll(&t.baseTx, record.ScanString, selectOldPayloads, before, limit)
		if err != nil {
			return err
		}
		for _, query := range []string{deletePayloads, markPayloadsRemoved} {
			if len(ids) == 0 {
				break
			}
			if err := t.execNow(query, ids); err != nil {
				return t.fail(err)
			}
		}
		removed = len(ids)
		t.wrote = true
		for _, query := range []string{deleteOldAttachments, deleteOldRemains} {
			if err := t.forEachRow(func(row scanner) error {
				removed++
				return row.Scan(new(string))
			}, query, before, limit); err != nil {
				return err
			}
		}
		return nil
	})
	return removed, err
}
