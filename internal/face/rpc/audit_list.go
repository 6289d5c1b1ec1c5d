package rpc

import (
	"cmp"
	"context"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/admission"
	"fleet/internal/fleet"
	"fleet/internal/service"
)

// ListAudit lists entries of the audit log, newest first.
func (f *Fleet) ListAudit(ctx context.Context, r *fleetv1.ListAuditRequest) (*fleetv1.ListAuditResponse, error) {
	q := service.ListAuditRequest{Cursor: r.GetCursor(), Limit: intIn(r.Limit), AuditFilter: fleet.AuditFilter{
		Principal: r.GetPrincipal(), Method: r.GetMethod(), AgentName: r.GetAgentName(), Outcome: r.GetOutcome(),
	}}
	var err error
	if q.Since, err = timeIn("since", r.GetSince()); err != nil {
		return nil, err
	}
	if q.Until, err = timeIn("until", r.GetUntil()); err != nil {
		return nil, err
	}
	lines, next, err := f.svc.ListAudit(ctx, q)
	if err != nil {
		return nil, err
	}
	// An unknown method is an error only if it has no entries, because the log can have methods of other versions, and paths.
	if m := r.GetMethod(); len(lines) == 0 && m != "" && !admission.HasMethod(m) {
		return nil, fleet.InvalidField("method", "there is no method %q: give the name of a method of the API, such as start_agent_task", fleet.Shorten(m, 60))
	}
	return &fleetv1.ListAuditResponse{Entries: listOf(lines, auditEntryOf), NextCursor: optional(next)}, nil
}

func auditEntryOf(e fleet.AuditEntry) *fleetv1.AuditEntry {
	return &fleetv1.AuditEntry{
		Id: cursorOf(e.ID), Time: timeOf(e.Time), Principal: e.Principal, Kind: string(e.Kind), Caller: optional(textOf(e.CallerAgent)), Method: textOf(e.Method),
		Target: textOf(e.Target), AgentName: optional(textOf(e.AgentName)), Owner: optional(textOf(e.Owner)),
		Outcome: cmp.Or(e.Outcome, fleet.OutcomeUnknown), Face: textOf(e.Face), Remote: e.Remote, RequestId: optional(textOf(e.RequestID)), Count: int32Of(e.Count),
	}
}
