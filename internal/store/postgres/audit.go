package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

const (
	updateAudit = `UPDATE audit SET outcome = $1, target = $2 WHERE n = $3`
	pruneAudit  = `DELETE FROM audit WHERE n IN (SELECT n FROM audit WHERE time < $1 ORDER BY time LIMIT $2 FOR UPDATE SKIP LOCKED)`
)

var insertAudit = numberPlaceholders(`INSERT INTO audit (` + record.AuditColumns + `) VALUES (` + record.Placeholders(record.AuditColumns) + `) RETURNING n`)

// queueAudit queues the write of the call's entry in the audit log. It queues nothing if the transaction has written nothing, or if
// the call has no entry or its entry was already written. read reads the result of the write. The caller must call settle with the
// result of the commit.
func (t *tx) queueAudit(b *pgx.Batch) (read func(pgx.BatchResults) error, settle func(error)) {
	var e fleet.AuditEntry
	ok, a := false, fleet.AuditFrom(t.ctx)
	if t.wrote {
		e, ok = a.Claim()
	}
	if !ok {
		return func(pgx.BatchResults) error { return nil }, func(error) {}
	}
	if len(t.events) > 0 {
		e.SetAgent(t.events[0])
	}
	b.Queue(insertAudit, encode(record.AuditArgs(&e))...)
	return func(r pgx.BatchResults) error { return r.QueryRow().Scan(&e.ID) }, func(err error) {
		if err != nil {
			e.ID = 0
		}
		a.EndClaim(e)
	}
}

// PutAudit writes entries of the audit log, see fleet.Store. It does not repeat a write that failed, because
// the entries could then be in the log twice.
func (s *Store) PutAudit(ctx context.Context, entries []fleet.AuditEntry) error {
	if err := s.calls.Begin(); err != nil {
		return err
	}
	defer s.calls.End()
	b := &pgx.Batch{} // a batch without BEGIN runs as one transaction
	for i := range entries {
		if e := &entries[i]; e.ID != 0 {
			b.Queue(updateAudit, encode([]any{e.Outcome, e.Target, e.ID})...)
		} else {
			b.Queue(insertAudit, encode(record.AuditArgs(e))...)
		}
	}
	return s.retry(ctx, func() (again bool, err error) {
		err = withAnswerTimeout(ctx, answerTimeout, func(ctx context.Context) error { return s.sidePool.SendBatch(ctx, b).Close() })
		return false, translate(err)
	})
}

// Audit returns entries of the audit log, newest first; see fleet.Store.
func (s *Store) Audit(ctx context.Context, f fleet.AuditFilter, limit int) (entries []fleet.AuditEntry, err error) {
	c := &clause{}
	record.AuditConditions(f, c.add)
	query := record.SelectAudit + c.where + `true ORDER BY n DESC LIMIT ` + c.arg(limit)
	err = s.runStatement(ctx, s.reader, appendTo(&entries, record.ScanAudit), query, c.args...)
	return entries, err
}
