package rpc

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"fleet/internal/fleet"
)

const (
	// failureWindow is the period in which the first failuresLogged failed logins are logged one by one. Further failed
	// logins are counted, and logged as one line at the end of the period.
	failureWindow  = 10 * time.Second
	failuresLogged = 10
)

// failures logs failed logins, but not so many that they fill the log.
type failures struct {
	logger *slog.Logger
	lines  AuditLog
	window time.Duration

	mu      sync.Mutex
	total   int64
	logged  int // in this window
	skipped int64
	timer   *time.Timer // ends this window; nil if no window is open
}

func newFailures(log *slog.Logger, lines AuditLog) *failures {
	return &failures{logger: log, lines: lines, window: failureWindow}
}

// log writes a failed login to the log and to the audit log. After failuresLogged of them in a window, it only counts
// it.
func (f *failures) log(ctx context.Context, e fleet.AuditEntry, attrs ...slog.Attr) {
	f.mu.Lock()
	f.total++
	if f.timer == nil {
		f.timer = time.AfterFunc(f.window, f.turn)
	}
	if f.logged >= failuresLogged {
		f.skipped++
		f.mu.Unlock()
		return
	}
	f.logged++
	total := f.total
	f.mu.Unlock()
	f.logger.LogAttrs(ctx, slog.LevelWarn, "login failed", append(attrs, slog.Int64("total", total))...)
	f.lines.Keep(e)
}

// turn ends a window and logs the failures that were only counted.
func (f *failures) turn() {
	f.mu.Lock()
	skipped, total := f.skipped, f.total
	f.logged, f.skipped, f.timer = 0, 0, nil
	f.mu.Unlock()
	if skipped > 0 {
		f.logger.LogAttrs(context.Background(), slog.LevelWarn, "logins failed, not logged one by one",
			slog.Int64("count", skipped), slog.Int64("total", total))
		f.lines.Keep(fleet.AuditEntry{Time: f.lines.Now(), Outcome: string(fleet.ReasonUnauthenticated), Count: int(skipped)})
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
