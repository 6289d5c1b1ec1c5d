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
	// loginsLogged and callsLogged are how many are logged one by one.
	loginsLogged = 10
	callsLogged  = 100
)

// failures logs failed logins, and calls that have changed nothing in the store, mostly because they failed. It does not log
// so many that they fill the log or the disk.
type failures struct {
	logger *slog.Logger
	lines  AuditLog
	window time.Duration

	mu     sync.Mutex
	logins int64                    // since the start
	logged map[string]int           // how many were logged in this window, by principal; failed logins have none
	rest   map[fleet.AuditEntry]int // the others of this window; the keys have only what is logged together
	timer  *time.Timer              // ends this window; nil if no window is open
}

func newFailures(log *slog.Logger, lines AuditLog) *failures {
	return &failures{logger: log, lines: lines, window: failureWindow, logged: map[string]int{}, rest: map[fleet.AuditEntry]int{}}
}

// login writes a failed login to the log and to the audit log, or counts it.
func (f *failures) login(ctx context.Context, e fleet.AuditEntry, attrs ...slog.Attr) {
	f.mu.Lock()
	f.logins++
	total := f.logins
	one := f.oneByOne("", loginsLogged, fleet.AuditEntry{Outcome: string(fleet.ReasonUnauthenticated)})
	f.mu.Unlock()
	if one {
		f.logger.LogAttrs(ctx, slog.LevelWarn, "login failed", append(attrs, slog.Int64("total", total))...)
		f.lines.Keep(e)
	}
}

// call reports whether the call, which has changed nothing in the store, is logged by itself. Otherwise it counts the call.
func (f *failures) call(e fleet.AuditEntry) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.oneByOne(e.Principal, callsLogged, fleet.AuditEntry{Principal: e.Principal, Kind: e.Kind, Method: e.Method, Outcome: e.Outcome})
}

// oneByOne reports whether fewer than most failures of the principal were logged in this window. Otherwise it counts the
// failure as one of the kind. The caller holds the lock.
func (f *failures) oneByOne(principal string, most int, kind fleet.AuditEntry) bool {
	if f.timer == nil {
		f.timer = time.AfterFunc(f.window, f.turn)
	}
	if f.logged[principal] >= most {
		f.rest[kind]++
		return false
	}
	f.logged[principal]++
	return true
}

// turn ends a window and logs the failures that were only counted.
func (f *failures) turn() {
	f.mu.Lock()
	rest := f.rest
	f.timer = nil
	f.logged, f.rest = map[string]int{}, map[fleet.AuditEntry]int{}
	f.mu.Unlock()
	for e, count := range rest {
		message := "calls failed, not logged one by one"
		switch {
		case e.Principal == "":
			message = "logins failed, not logged one by one"
		case e.Outcome == fleet.OutcomeOK:
			message = "calls changed nothing, not logged one by one"
		}
		f.logger.LogAttrs(context.Background(), slog.LevelWarn, message, slog.Int("count", count),
			slog.String("method", e.Method), slog.String("principal", e.Principal), slog.String("outcome", e.Outcome))
		e.Time, e.Count = f.lines.Now(), count
		f.lines.Keep(e)
	}
}

// close logs the failures that were only counted so far.
func (f *failures) close() {
	f.mu.Lock()
	if f.timer != nil {
		f.timer.Stop()
	}
	f.mu.Unlock()
	f.turn()
}
