package record

import "fleet/internal/fleet"

// AuditColumns are the columns that an insert of an audit entry sets. AuditArgs returns their values in the same order.
const AuditColumns = `time, principal, kind, caller, method, method_key, face, remote, target, agent_name, name_key, owner, request_id, outcome, count`

// SelectAudit is the beginning of a query whose rows ScanAudit reads.
const SelectAudit = `SELECT n, time, principal, kind, caller, method, face, remote, target, agent_name, owner, request_id, outcome, count FROM audit WHERE `

// AuditArgs returns the values of AuditColumns.
func AuditArgs(e *fleet.AuditEntry) []any {
	return []any{
		e.Time, e.Principal, string(e.Kind), e.CallerAgent, e.Method, fleet.MethodKey(e.Method), e.Face, e.Remote, e.Target,
		e.AgentName, NameKey(e.AgentName), e.Owner, e.RequestID, e.Outcome, max(e.Count, 1),
	}
}

// ScanAudit returns the audit entry of a row of SelectAudit.
func ScanAudit(row Scanner) (e fleet.AuditEntry, err error) {
	err = row.Scan(&e.ID, (*TimeColumn)(&e.Time), &e.Principal, (*string)(&e.Kind), &e.CallerAgent, &e.Method, &e.Face, &e.Remote, &e.Target, &e.AgentName, &e.Owner,
		&e.RequestID, &e.Outcome, &e.Count)
	return e, err
}

// AuditConditions calls add for each condition of the filter. Each condition has one ? for its value.
func AuditConditions(f fleet.AuditFilter, add func(condition string, value any)) {
	if f.Principal != "" {
		add(`principal = ?`, f.Principal)
	}
	if f.Method != "" {
		add(`method_key = ?`, fleet.MethodKey(f.Method))
	}
	if f.AgentName != "" {
		add(`name_key <> '' AND name_key = ?`, NameKey(f.AgentName))
	}
	if f.Owner != "" {
		add(`owner IN ('', ?)`, f.Owner)
	}
	switch f.Outcome {
	case "":
	case fleet.OutcomeFailed:
		add(`outcome <> ?`, fleet.OutcomeOK)
	case fleet.OutcomeUnknown:
		add(`outcome = ?`, "")
	default:
		add(`outcome = ?`, f.Outcome)
	}
	if !f.Since.IsZero() {
		add(`time >= ?`, f.Since)
	}
	if !f.Until.IsZero() {
		add(`time < ?`, f.Until)
	}
	if f.Before > 0 {
		add(`n < ?`, f.Before)
	}
}
