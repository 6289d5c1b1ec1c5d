package sqlite

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

const (
	auditColumns = `time, principal, kind, caller, method, method_key, face, remote, target, agent_name, name_key, owner, request_id, outcome, count`
	selectAudit  = `SELECT n, time, principal, kind, caller, method, face, remote, target, agent_name, owner, request_id, outcome, count FROM audit WHERE `
	endAudit     = `UPDATE audit SET outcome = ?, target = ? WHERE n = ?`
	pruneAudit   = `DELETE FROM audit WHERE n IN (SELECT n FROM audit WHERE time < ? ORDER BY time LIMIT ?)`
)

var insertAudit = `INSERT INTO audit (` + auditColumns + `) VALUES (` + record.Marks(auditColumns) + `)`

func auditArgs(e *fleet.AuditEntry) []any {
	return []any{
		micros(e.Time), e.Principal, string(e.Kind), e.Caller, e.Method, fleet.MethodKey(e.Method), e.Face, e.Remote, e.Target,
		e.AgentName, record.Key(e.AgentName), e.Owner, e.RequestID, e.Outcome, max(e.Count, 1),
	}
}

// addAudit adds the line of the transaction's call, if it has one that is not written yet. The returned function must be called
// with the result of the transaction.
func (t *tx) addAudit() (settle func(error), err error) {
	a := fleet.AuditFrom(t.ctx)
	e, ok := a.Take()
	if !ok {
		return func(error) {}, nil
	}
	e.About(t.first)
	e.ID, err = t.exec(insertAudit, auditArgs(&e)...)
	return func(err error) {
		if err != nil {
			e.ID = 0
		}
		a.Wrote(e)
	}, err
}

// PutAudit writes lines of the audit log, see fleet.Store.
func (s *Store) PutAudit(ctx context.Context, entries []fleet.AuditEntry) error {
	return s.write(ctx, func(c *conn) error {
		t := &readTx{ctx: ctx, conn: c}
		return t.run("BEGIN IMMEDIATE", func() error {
			for i := range entries {
				e := &entries[i]
				var err error
				if e.ID != 0 {
					_, err = c.exec(ctx, endAudit, e.Outcome, e.Target, e.ID)
				} else {
					_, err = c.exec(ctx, insertAudit, auditArgs(e)...)
				}
				if err != nil {
					return plain(ctx, err)
				}
			}
			return nil
		})
	})
}

// Audit returns lines of the audit log, see fleet.Store.
func (s *Store) Audit(ctx context.Context, f fleet.AuditFilter, limit int) (entries []fleet.AuditEntry, err error) {
	where, args := auditConditions(f)
	err = s.read(ctx, func(c *conn) error {
		t := &readTx{ctx: ctx, conn: c}
		return t.run("BEGIN", func() error {
			entries, err = all(t, scanAudit, selectAudit+where+`true ORDER BY n DESC LIMIT ?`, append(args, limit)...)
			return err
		})
	})
	return entries, err
}

func auditConditions(f fleet.AuditFilter) (where string, args []any) {
	var b strings.Builder
	add := func(condition string, values ...any) {
		b.WriteString(condition + ` AND `)
		args = append(args, values...)
	}
	if f.Principal != "" {
		add(`principal = ?`, f.Principal)
	}
	if f.Method != "" {
		add(`method_key = ?`, fleet.MethodKey(f.Method))
	}
	if f.AgentName != "" {
		add(`name_key <> '' AND name_key = ?`, record.Key(f.AgentName))
	}
	switch f.Outcome {
	case "":
	case fleet.OutcomeFailed:
		add(`outcome <> ?`, fleet.OutcomeOK)
	case fleet.OutcomeUnknown:
		add(`outcome = ''`)
	default:
		add(`outcome = ?`, f.Outcome)
	}
	if !f.Since.IsZero() {
		add(`time >= ?`, micros(f.Since))
	}
	if !f.Until.IsZero() {
		add(`time < ?`, micros(f.Until))
	}
	if f.Before > 0 {
		add(`n < ?`, f.Before)
	}
	return b.String(), args
}

func scanAudit(row scanner) (e fleet.AuditEntry, err error) {
	var at sql.NullInt64
	err = row.Scan(&e.ID, &at, &e.Principal, (*string)(&e.Kind), &e.Caller, &e.Method, &e.Face, &e.Remote, &e.Target, &e.AgentName, &e.Owner,
		&e.RequestID, &e.Outcome, &e.Count)
	e.Time = timeOf(at)
	return e, err
}

// PruneAudit removes old lines of the audit log, see fleet.Store.
func (s *Store) PruneAudit(ctx context.Context, before time.Time, limit int) (removed int, err error) {
	err = s.write(ctx, func(c *conn) error {
		r, err := c.exec(ctx, pruneAudit, micros(before), limit)
		if err != nil {
			return plain(ctx, err)
		}
		n, err := r.RowsAffected()
		removed = int(n)
		return err
	})
	return removed, err
}
