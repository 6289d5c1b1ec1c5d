package sqlite

import (
	"context"
	"strings"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

const (
	updateAudit = `UPDATE audit SET outcome = ?, target = ? WHERE n = ?`
	pruneAudit  = `DELETE FROM audit WHERE n IN (SELECT n FROM audit WHERE time < ? ORDER BY time LIMIT ?)`
)

var insertAudit = `INSERT INTO audit (` + record.AuditColumns + `) VALUES (` + record.Placeholders(record.AuditColumns) + `)`

// addAudit writes the entry of the transaction's call to the audit log, unless the call has no entry or the entry was
// already written. If err is nil, the caller must call settle with the result of the transaction.
func (t *tx) addAudit() (settle func(error), err error) {
	a := fleet.AuditFrom(t.ctx)
	e, ok := a.Claim()
	if !ok {
		return func(error) {}, nil
	}
	e.SetAgent(t.firstEvent)
	e.ID, err = t.exec(insertAudit, record.AuditArgs(&e)...)
	return func(err error) {
		if err != nil {
			e.ID = 0
		}
		a.EndClaim(e)
	}, err
}

// PutAudit writes entries of the audit log, see fleet.Store.
func (s *Store) PutAudit(ctx context.Context, entries []fleet.AuditEntry) error {
	return s.writeTx(ctx, func(t *baseTx) error {
		for i := range entries {
			query, args := insertAudit, record.AuditArgs(&entries[i])
			if e := &entries[i]; e.ID != 0 {
				query, args = updateAudit, []any{e.Outcome, e.Target, e.ID}
			}
			if _, err := t.conn.exec(ctx, query, encode(args)...); err != nil {
				return contextError(ctx, err)
			}
		}
		return nil
	})
}

// Audit returns entries of the audit log, newest first; see fleet.Store.
func (s *Store) Audit(ctx context.Context, f fleet.AuditFilter, limit int) (entries []fleet.AuditEntry, err error) {
	var where strings.Builder
	var args []any
	record.AuditConditions(f, func(condition string, value any) {
		where.WriteString(condition + ` AND `)
		args = append(args, value)
	})
	err = s.read(ctx, func(c *conn) error {
		entries, err = record.QueryAll(&baseTx{ctx: ctx, conn: c}, record.ScanAudit, record.SelectAudit+where.String()+`true ORDER BY n DESC LIMIT ?`, append(args, limit)...)
		return err
	})
	return entries, err
}
