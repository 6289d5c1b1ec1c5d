package sqlite

import (
	"context"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

// These statements remove old rows: the first argument is a time, and the second one the largest number of rows.
const (
	// pruneEvents looks only at the beginning of the log, because the log is ordered by time. It keeps the newest event, because
	// the log continues after it.
	pruneEvents = `DELETE FROM events WHERE seq < (SELECT max(seq) FROM events) AND seq IN (
			SELECT seq FROM (SELECT seq, time FROM events ORDER BY seq LIMIT ?2) WHERE time < ?1)`
	pruneRequests = `DELETE FROM requests WHERE (principal, id) IN (
			SELECT principal, id FROM requests WHERE created_at < ?1 ORDER BY created_at LIMIT ?2)`
	pruneTokens = `DELETE FROM tokens WHERE n IN (
			SELECT n FROM tokens WHERE agent_uid <> '' AND revoked_at < ?1 ORDER BY revoked_at LIMIT ?2)`
	// pruneRefusals removes only refusals. The sums of budgets come from the other entries.
	pruneRefusals = `DELETE FROM budget_ledger WHERE n IN (
			SELECT n FROM budget_ledger WHERE kind = 'refuse' AND at < ?1 ORDER BY at LIMIT ?2)`
	// pruneBulks removes plans of bulk operations, which contain their results.
	pruneBulks = `DELETE FROM resources WHERE kind = '` + string(fleet.BulkKind) + `' AND name IN (
			SELECT name FROM resources WHERE kind = '` + string(fleet.BulkKind) + `' AND json_extract(body, '$.at') < ?1 LIMIT ?2)`
	// pruneLeases removes expired leases, for example leases of crashed servers for deleted agents. Removing them is safe,
	// because no epoch is ever used twice.
	pruneLeases     = `DELETE FROM leases WHERE key IN (SELECT key FROM leases WHERE until < ?1 LIMIT ?2)`
	pruneDeliveries = `DELETE FROM deliveries WHERE id IN (
			SELECT id FROM deliveries WHERE created_at < ?1 ORDER BY created_at LIMIT ?2)`
	// pruneReplicas keeps servers that have agents, servers with a lease on their name, which may still run, and forgotten
	// servers, because RecordHeartbeat must not record those again.
	pruneReplicas = `DELETE FROM replicas WHERE name IN (
			SELECT name FROM replicas WHERE heard_at < ?1 AND NOT forgotten AND '` + fleet.ReplicaLeasePrefix + `' || name NOT IN (SELECT key FROM leases)
				AND name NOT IN (SELECT substr(place, instr(place, '@') + 1) FROM agents WHERE deleted_at IS NULL AND instr(place, '@') > 0) LIMIT ?2)`
)

// pruneStatements has the statements for each kind, except fleet.PrunePayloads.
var pruneStatements = map[fleet.PruneKind][]string{
	fleet.PruneHistory:    {pruneEvents, pruneRequests, pruneTokens, pruneRefusals, pruneBulks, pruneLeases, pruneReplicas},
	fleet.PruneAudit:      {pruneAudit},
	fleet.PruneDeliveries: {pruneDeliveries},
}

// Prune removes old rows, see fleet.Store.
func (s *Store) Prune(ctx context.Context, kind fleet.PruneKind, before time.Time, limit int) (removed int, err error) {
	if kind == fleet.PrunePayloads {
		return s.prunePayloads(ctx, before, limit)
	}
	err = s.writeTx(ctx, func(t *baseTx) error {
		removed = 0
		for _, query := range pruneStatements[kind] {
			r, err := t.conn.exec(ctx, query, micros(before), limit)
			if err != nil {
				return contextError(ctx, err)
			}
			n, err := r.RowsAffected()
			if err != nil {
				return err
			}
			removed += int(n)
		}
		return nil
	})
	if err == nil {
		s.checkpointer.notifyCommit()
	}
	return removed, err
}

const (
	deleteOldAttachments = `DELETE FROM task_attachments WHERE task_id IN (SELECT id FROM tasks WHERE id IN (SELECT task_id FROM task_attachments)
		AND status NOT IN ('pending', 'running') AND ended_at < ? ORDER BY ended_at LIMIT ?) RETURNING name`
	deleteOldRemains   = `DELETE FROM agent_remains WHERE agent_uid IN (SELECT agent_uid FROM agent_remains WHERE kept_at < ? ORDER BY kept_at LIMIT ?) RETURNING agent_uid`
	selectOldPayloads  = `SELECT id FROM tasks WHERE payload_size > 0 AND payload_removed = 0 AND ended_at < ? ORDER BY ended_at LIMIT ?`
	markPayloadRemoved = `UPDATE tasks SET payload_removed = 1 WHERE id = ?`
)

// prunePayloads removes old payloads and attachments, and old remains of agents.
func (s *Store) prunePayloads(ctx context.Context, before time.Time, limit int) (removed int, err error) {
	err = s.Update(ctx, func(ftx fleet.Tx) error {
		t := ftx.(*tx) //nolint:forcetypeassert // Update passes a *tx
		ids, err := record.QueryAll(&t.baseTx, record.ScanString, selectOldPayloads, micros(before), limit)
		if err != nil {
			return err
		}
		for _, id := range ids {
			for _, query := range []string{record.DeletePayload, markPayloadRemoved} {
				if _, err := t.exec(query, id); err != nil {
					return t.fail(err)
				}
			}
		}
		removed = len(ids)
		for _, query := range []string{deleteOldAttachments, deleteOldRemains} {
			if err := t.forEachRow(func(row scanner) error {
				removed++
				return row.Scan(new(string))
			}, query, micros(before), limit); err != nil {
				return err
			}
		}
		return nil
	})
	return removed, err
}
