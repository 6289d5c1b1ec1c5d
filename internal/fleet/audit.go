package fleet

import (
	"context"
	"strings"
	"sync"
	"time"
)

// OutcomeOK is the outcome of a successful call; other outcomes are reasons of errors. OutcomeUnknown and OutcomeFailed are for filters
// and for display.
const (
	OutcomeOK      = "ok"
	OutcomeUnknown = "unknown" // the call has not ended, or the server ended before the call did; stored as an empty text
	OutcomeFailed  = "failed"  // in a filter: every outcome except OutcomeOK
)

// AuditEntry is an entry of the audit log: who called which method, what the call was about, and how it ended. It contains
// no secrets and no texts of tasks.
type AuditEntry struct {
	ID          int64 // position in the log; set by the store
	Time        time.Time
	Principal   string // empty if the caller could not be identified
	Kind        PrincipalKind
	CallerAgent string // name of the agent that called with its own token; empty for other callers
	Method      string // of the API, without the name of the service
	Face        string
	Remote      string // address of the caller
	Target      string // the first agent, task, token or the like in the request; if it names none, in the response
	AgentName   string // of the agent that the call concerns, if it is known
	Owner       string // of this agent
	RequestID   string
	Outcome     string // OutcomeOK or the reason of an error; empty until the call ends
	Count       int    // number of equal calls that the entry stands for
}

// AuditFilter selects entries of the audit log. The zero value selects all.
type AuditFilter struct {
	Principal string
	Method    string // compared by MethodKey
	AgentName string // compared ignoring case
	Owner     string // of the agent; calls whose agent's owner is not known match too
	Outcome   string // OutcomeOK, OutcomeFailed, OutcomeUnknown or a reason
	Since     time.Time
	Until     time.Time // only entries before it; zero for no limit
	Before    int64     // only entries with a lower ID; 0 for no limit
}

// MethodKey returns the form in which methods are compared: StartAgentTask and start_agent_task are the same.
func MethodKey(method string) string { return strings.ReplaceAll(strings.ToLower(method), "_", "") }

// PendingAuditEntry holds the AuditEntry of a call that has not ended. The call's first transaction that changes something writes the
// entry to the store, see WithAudit. A PendingAuditEntry is safe for concurrent use.
type PendingAuditEntry struct {
	mu      sync.Mutex
	entry   AuditEntry
	claimed bool
}

// NewPendingAuditEntry returns the pending entry of a call that begins.
func NewPendingAuditEntry(e AuditEntry) *PendingAuditEntry { return &PendingAuditEntry{entry: e} }

// Claim returns the entry and true if the transaction that calls it must write the entry. The transaction calls EndClaim
// afterwards. Claim returns false if another transaction writes the entry or has written it, and if a is nil because the call is
// not audited.
func (a *PendingAuditEntry) Claim() (AuditEntry, bool) {
	if a == nil {
		return AuditEntry{}, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.claimed {
		return AuditEntry{}, false
	}
	a.claimed = true
	return a.entry, true
}

// EndClaim records the end of the transaction that claimed the entry. e is the entry that the transaction has committed. If e.ID is 0, the
// transaction has failed, and another transaction can claim the entry.
func (a *PendingAuditEntry) EndClaim(e AuditEntry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.claimed = e.ID != 0; a.claimed {
		a.entry.ID, a.entry.AgentName, a.entry.Owner = e.ID, e.AgentName, e.Owner
	}
}

// Change applies the change to the entry and returns the entry.
func (a *PendingAuditEntry) Change(change func(e *AuditEntry)) AuditEntry {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(&a.entry)
	return a.entry
}

type auditKey struct{}

// WithAudit returns a context for an audited call. The first transaction that changes something also writes the
// pending entry, so the store has both the change and the entry, or neither.
func WithAudit(ctx context.Context, a *PendingAuditEntry) context.Context {
	return context.WithValue(ctx, auditKey{}, a)
}

// AuditFrom returns the pending entry of the context's call; nil if the call is not audited.
func AuditFrom(ctx context.Context) *PendingAuditEntry {
	a, _ := ctx.Value(auditKey{}).(*PendingAuditEntry)
	return a
}

// SetAgent sets the agent of the entry from the first event that the transaction has appended. It does nothing if first is nil.
func (e *AuditEntry) SetAgent(first *Event) {
	if first != nil {
		e.AgentName, e.Owner = first.AgentName, first.Owner
	}
}
