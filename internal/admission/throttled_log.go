package admission

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"fleet/internal/fleet"
)

const (
	// failureWindow is the period in which the first failed logins, and the first calls of each principal that change nothing
	// in the store, are logged one by one. Further ones are counted, and logged together at the end of the period.
	failureWindow = 10 * time.Second
	// maxLoginsLogged and maxCallsLogged are how many are logged one by one.
	maxLoginsLogged = 10
	maxCallsLogged  = 100
)

// throttledLog logs failed logins, and calls that have changed nothing in the store, mostly because they failed. It does not log
// so many that they fill the log or the disk.
type throttledLog struct {
	logger   *slog.Logger
	auditLog AuditLog
	window   time.Duration

	mu          sync.Mutex
	totalLogins int64                    // since the start
	logged      map[string]int           // how many were logged in this window, by principal; failed logins have none
	counted     map[fleet.AuditEntry]int // the others of this window; the keys have only what is logged together
	timer       *time.Timer              // ends this window; nil if no window is open
}

func newThrottledLog(log *slog.Logger, lines AuditLog) *throttledLog {
	return &throttledLog{logger: log, auditLog: lines, window: failureWindow, logged: map[string]int{}, counted: map[fleet.AuditEntry]int{}}
}

// recordLogin writes a failed login to the log and to the audit log, or counts it.
func (f *throttledLog) recordLogin(ctx context.Context, e fleet.AuditEntry, attrs ...slog.Attr) {
	f.mu.Lock()
	f.totalLogins++
	total := f.totalLogins
	alone := f.logOrCount("", maxLoginsLogged, fleet.AuditEntry{Outcome: string(fleet.ReasonUnauthenticated)})
	f.mu.Unlock()
	if alone {
		f.logger.LogAttrs(ctx, slog.LevelWarn, "login failed", append(attrs, slog.Int64("total", total))...)
		f.auditLog.Add(e)
	}
}

// recordCall reports whether the call, which has changed nothing in the store, is logged by itself. Otherwise it counts the call.
func (f *throttledLog) recordCall(e fleet.AuditEntry) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.logOrCount(e.Principal, maxCallsLogged, fleet.AuditEntry{Principal: e.Principal, Kind: e.Kind, Caller: e.Caller, Method: e.Method, Outcome: e.Outcome})
}

// logOrCount reports whether fewer than limit failures of the principal were logged in this window. Otherwise it counts the
// failure as one of the kind. The caller holds the lock.
func (f *throttledLog) logOrCount(principal string, limit int, kind fleet.AuditEntry) bool {
	if f.timer == nil {
		f.timer = time.AfterFunc(f.window, f.endWindow)
	}
	if f.logged[principal] >= limit {
		f.counted[kind]++
		return false
	}
	f.logged[principal]++
	return true
}

// endWindow ends a window and logs the failures that were only counted.
func (f *throttledLog) endWindow() {
	f.mu.Lock()
	counted := f.counted
	f.timer = nil
	f.logged, f.counted = map[string]int{}, map[fleet.AuditEntry]int{}
	f.mu.Unlock()
	for e, count := range counted {
		message := "calls failed, not logged one by one"
		switch {
		case e.Principal == "":
			message = "logins failed, not logged one by one"
		case e.Outcome == fleet.OutcomeOK:
			message = "calls changed nothing, not logged one by one"
		}
		f.logger.LogAttrs(context.Background(), slog.LevelWarn, message, slog.Int("count", count),
			slog.String("method", e.Method), slog.String("principal", e.Principal), slog.String("outcome", e.Outcome))
		e.Time, e.Count = f.auditLog.Now(), count
		f.auditLog.Add(e)
	}
}

// close logs the failures that were only counted so far.
func (f *throttledLog) close() {
	f.mu.Lock()
	if f.timer != nil {
		f.timer.Stop()
	}
	f.mu.Unlock()
	f.endWindow()
}
