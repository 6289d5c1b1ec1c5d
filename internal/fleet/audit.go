package fleet

import (
	"context"
	"strings"
	"sync"
	"time"
)

// These are outcomes of an AuditEntry besides reasons of errors.
const (
	OutcomeOK      = "ok"
	OutcomeUnknown = "unknown" // the server ended before the call did; in the store it is empty
	OutcomeFailed  = "failed"  // in a filter: every outcome but OutcomeOK
)

// AuditEntry is a line of the audit log: who called which method about what, and how that ended. It has neither secrets nor
// texts of tasks.
type AuditEntry struct {
	ID        int64 // position in the log; set by the store
	Time      time.Time
	Principal string // empty if the caller could not be identified
	Kind      Kind
	Caller    string // name of the agent that has called with a token of its own
	Method    string // of the API, without its service
	Face      string
	Remote    string // address of the caller
	Target    string // what the request, or else the answer, names first: an agent, a task, a token
	AgentName string // the agent that the call concerns, if it is known
	Owner     string // of this agent
	RequestID string
	Outcome   string // OutcomeOK or the reason of an error; empty while it is not known
	Count     int    // how many such calls the line stands for
}

// AuditFilter selects lines of the audit log; the zero value selects all.
type AuditFilter struct {
	Principal string
	Method    string // without case and underscores
	AgentName string // compared without case
	Outcome   string // OutcomeOK, OutcomeFailed, OutcomeUnknown or a reason
	Since     time.Time
	Until     time.Time // before it; zero for no limit
	Before    int64     // only lines with a lower ID; 0 for no limit
}

// MethodKey returns the form in which methods are compared: StartAgentTask and start_agent_task are the same.
func MethodKey(method string) string { return strings.ReplaceAll(strings.ToLower(method), "_", "") }

// Audited is the line of a call that has not ended. The first transaction of the call that changes something writes it, see
// WithAudit. It is safe for concurrent use.
type Audited struct {
	mu    sync.Mutex
	entry AuditEntry
	taken bool
}

// NewAudited returns the line of a call that begins.
func NewAudited(e AuditEntry) *Audited { return &Audited{entry: e} }

// Take returns the line for a transaction that is about to write it, and whether it is still to be written. The transaction
// calls Wrote afterwards. It may be called on nil, for a call that is not audited.
func (a *Audited) Take() (AuditEntry, bool) {
	if a == nil {
		return AuditEntry{}, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.taken {
		return AuditEntry{}, false
	}
	a.taken = true
	return a.entry, true
}

// Wrote says that the transaction has committed the line; an ID of 0 says that it has not.
func (a *Audited) Wrote(e AuditEntry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.taken = e.ID != 0; a.taken {
		a.entry.ID, a.entry.AgentName, a.entry.Owner = e.ID, e.AgentName, e.Owner
	}
}

// Describe changes what is known of the call, and returns the line.
func (a *Audited) Describe(change func(e *AuditEntry)) AuditEntry {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(&a.entry)
	return a.entry
}

type auditKey struct{}

// WithAudit returns a context for a call whose line is written by the first transaction that changes something: both are in the
// store, or neither is.
func WithAudit(ctx context.Context, a *Audited) context.Context {
	return context.WithValue(ctx, auditKey{}, a)
}

// AuditFrom returns the line of the call; nil if it is not audited.
func AuditFrom(ctx context.Context) *Audited {
	a, _ := ctx.Value(auditKey{}).(*Audited)
	return a
}

// About completes the line of a transaction with the first event that it has appended.
func (e *AuditEntry) About(first *Event) {
	if first != nil {
		e.AgentName, e.Owner = first.AgentName, first.Owner
	}
}
