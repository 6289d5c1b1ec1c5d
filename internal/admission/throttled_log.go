package admission

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"fleet/internal/fleet"
)

const (
	// throttleWindow is the period in which the first failed logins, and the first calls of each principal that change nothing
	// in the store, are logged one by one. Further ones are counted, and logged together at the end of the period.
	throttleWindow = 10 * time.Second
	// maxFailedLoginsLogged is how many failed logins are logged one by one in each window. maxCallsLogged is the number for the
	// calls of each principal.
	maxFailedLoginsLogged = 10
	maxCallsLogged        = 100
)

// throttledLog logs failed logins, and calls that have changed nothing in the store, mostly because they failed. It does not log
// so many that they fill the log or the disk.
type throttledLog struct {
	logger   *slog.Logger
	auditLog AuditLog
	window   time.Duration

	mu                sync.Mutex
	totalFailedLogins int64                    // since the start
	logged            map[string]int           // how many were logged one by one in this window, by principal; "" for failed logins
	counted           map[fleet.AuditEntry]int // how many others there were in this window; the keys have only the fields by which they are grouped
	timer             *time.Timer              // ends this window; nil if no window is open
}

func newThrottledLog(log *slog.Logger, auditLog AuditLog) *throttledLog {
	return &throttledLog{logger: log, auditLog: auditLog, window: throttleWindow, logged: map[string]int{}, counted: map[fleet.AuditEntry]int{}}
}

// recordFailedLogin writes a failed login to the log and to the audit log, or only counts it.
func (t *throttledLog) recordFailedLogin(ctx context.Context, e fleet.AuditEntry, attrs ...slog.Attr) {
	t.mu.Lock()
	t.totalFailedLogins++
	total := t.totalFailedLogins
	allowed := t.allowOrCount("", maxFailedLoginsLogged, fleet.AuditEntry{Outcome: e.Outcome})
	t.mu.Unlock()
	if allowed {
		t.logger.LogAttrs(ctx, slog.LevelWarn, "login failed", append(attrs, slog.Int64("total", total))...)
		t.auditLog.Add(e)
	}
}

// allowOrCountCall reports whether the caller must log a call that has changed nothing in the store. Otherwise it counts the call.
func (t *throttledLog) allowOrCountCall(e fleet.AuditEntry) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.allowOrCount(e.Principal, maxCallsLogged, fleet.AuditEntry{Principal: e.Principal, Kind: e.Kind, CallerAgent: e.CallerAgent, Method: e.Method, Outcome: e.Outcome})
}

// allowOrCount reports whether a login or call may be logged by itself: whether fewer than limit of the principal were allowed in this
// window. Otherwise it counts one more of the kind. The caller holds t.mu.
func (t *throttledLog) allowOrCount(principal string, limit int, kind fleet.AuditEntry) bool {
	if t.timer == nil {
		t.timer = time.AfterFunc(t.window, t.endWindow)
	}
	if t.logged[principal] >= limit {
		t.counted[kind]++
		return false
	}
	t.logged[principal]++
	return true
}

// endWindow ends a window and logs how many logins and calls were only counted.
func (t *throttledLog) endWindow() {
	t.mu.Lock()
	counted := t.counted
	t.timer = nil
	t.logged, t.counted = map[string]int{}, map[fleet.AuditEntry]int{}
	t.mu.Unlock()
	for e, count := range counted {
		message := "calls failed, not logged one by one"
		switch {
		case e.Principal == "":
			message = "logins failed, not logged one by one"
		case e.Outcome == fleet.OutcomeOK:
			message = "calls changed nothing, not logged one by one"
		}
		t.logger.LogAttrs(context.Background(), slog.LevelWarn, message, slog.Int("count", count),
			slog.String("method", e.Method), slog.String("principal", e.Principal), slog.String("outcome", e.Outcome))
		e.Time, e.Count = t.auditLog.Now(), count
		t.auditLog.Add(e)
	}
}

// close ends the window early.
func (t *throttledLog) close() {
	t.mu.Lock()
	if t.timer != nil {
		t.timer.Stop()
	}
	t.mu.Unlock()
	t.endWindow()
}
