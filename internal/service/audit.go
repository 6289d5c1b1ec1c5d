package service

import (
	"context"
	"log/slog"
	"regexp"
	"strconv"
	"sync"
	"time"

	"fleet/internal/fleet"
)

const (
	// auditDelay is how long the entry of an ended call waits for further entries, so that they are written together.
	auditDelay = 200 * time.Millisecond
	// auditBatch is the maximum number of entries in one transaction.
	auditBatch = 500
	// maxAuditQueue is the maximum number of queued entries, which matters while writes fail. Further entries are dropped, and the
	// server's log says how many.
	maxAuditQueue = 10000
	// auditTimeout limits how long one flush may take. It is also the time before entries whose write failed are written again.
	auditTimeout = 10 * time.Second
)

// AuditLog writes the audit entries of calls to the store in batches. It writes the entries of calls that changed nothing. The
// transaction of a call that changed something has already written its entry (see fleet.WithAudit); AuditLog adds the
// outcome.
type AuditLog struct {
	store   fleet.Store
	log     *slog.Logger
	mu      sync.Mutex
	queue   []fleet.AuditEntry
	dropped int
	timer   *time.Timer // writes the queue; nil if no later write is planned

	flushMu sync.Mutex // is held during flush
}

func newAuditLog(store fleet.Store, log *slog.Logger) *AuditLog {
	return &AuditLog{store: store, log: log}
}

// Add queues the entry of a call that has ended. If the call succeeded and its entry is not in the store yet, the call may
// have changed something outside the store. Add then waits until the entry is written or the write has failed. The entries of
// concurrent calls share a transaction. Add drops the entry if the queue is full.
func (l *AuditLog) Add(e fleet.AuditEntry) {
	l.mu.Lock()
	if len(l.queue) >= maxAuditQueue {
		l.dropped++
		l.mu.Unlock()
		return
	}
	l.queue = append(l.queue, e)
	mustWait := e.ID == 0 && e.Outcome == fleet.OutcomeOK
	if !mustWait && l.timer == nil {
		l.timer = time.AfterFunc(auditDelay, l.flush)
	}
	l.mu.Unlock()
	if mustWait {
		l.flush()
	}
}

// Now returns the time of a new entry, by the clock of the store.
func (l *AuditLog) Now() time.Time { return l.store.Now().UTC() }

// Close writes the queued entries. Call it after the last call of Add and before the store is closed.
func (l *AuditLog) Close() { l.flush() }

// flush writes the queued entries. When it returns, each entry that was queued before the call is written, or its write has
// failed, by this or a concurrent call.
func (l *AuditLog) flush() {
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	l.mu.Lock()
	entries, dropped := l.queue, l.dropped
	l.queue, l.dropped = nil, 0
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), auditTimeout)
	defer cancel()
	for len(entries) > 0 {
		n := min(len(entries), auditBatch)
		if err := l.store.PutAudit(ctx, entries[:n]); err != nil {
			l.log.ErrorContext(ctx, "lines of the audit log were not stored, trying again", slog.Int("lines", len(entries)), slog.Any("error", err))
			l.requeue(entries)
			break
		}
		entries = entries[n:]
	}
	if dropped > 0 {
		l.log.ErrorContext(ctx, "lines of the audit log were not stored, too many are waiting", slog.Int("lines", dropped))
	}
}

// requeue puts entries whose write failed back into the queue.
func (l *AuditLog) requeue(entries []fleet.AuditEntry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	keep := min(len(entries), max(0, maxAuditQueue-len(l.queue)))
	l.dropped += len(entries) - keep
	l.queue = append(entries[:keep:keep], l.queue...)
	if l.timer == nil {
		l.timer = time.AfterFunc(auditTimeout, l.flush)
	}
}

// MaxAuditEntries is the maximum number of entries of the audit log in one response.
const MaxAuditEntries = 1000

// ListAuditRequest selects entries of the audit log.
type ListAuditRequest struct {
	fleet.AuditFilter
	Cursor string // that of an earlier page; empty means the newest entries
	Limit  *int   // maximum number of entries; nil means 100
}

var outcomePattern = regexp.MustCompile(`^(|ok|failed|unknown|[A-Z][A-Z_]*)$`)

// ListAudit returns entries of the audit log, newest first, and the cursor of the next page; "" on the last page. The entries
// include calls of this process that have just ended. Package admission lets only admins call ListAudit.
func (s *Service) ListAudit(ctx context.Context, r ListAuditRequest) (entries []fleet.AuditEntry, next string, err error) {
	limit, err := limitOr(r.Limit, 100, MaxAuditEntries)
	if err != nil {
		return nil, "", err
	}
	if !outcomePattern.MatchString(r.Outcome) {
		return nil, "", fleet.InvalidField("outcome", "outcome %q is not ok, failed, unknown or the reason of an error, such as PERMISSION_DENIED", fleet.Shorten(r.Outcome, 60))
	}
	if !r.Until.IsZero() && !r.Until.After(r.Since) {
		return nil, "", fleet.InvalidField("until", "until must be after since")
	}
	if r.Cursor != "" {
		if r.Before, err = strconv.ParseInt(r.Cursor, 10, 64); err != nil || r.Before < 1 {
			return nil, "", fleet.InvalidField("cursor", "cursor %q is not valid: give the next_cursor of an answer", fleet.Shorten(r.Cursor, 40))
		}
	}
	r.AgentName, r.Owner = fleet.SplitOwnedRef(r.AgentName)
	s.audit.flush()
	if entries, err = s.store.Audit(ctx, r.AuditFilter, limit+1); err != nil || len(entries) <= limit {
		return entries, "", err
	}
	return entries[:limit], strconv.FormatInt(entries[limit-1].ID, 10), nil
}
