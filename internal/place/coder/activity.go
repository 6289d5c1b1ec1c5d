package coder

import (
	"sync"
	"time"

	"github.com/google/uuid"
)

// activity tracks which workspaces have a run that is being followed. List refreshes idle workspaces rarely, so that
// hundreds of idle agents cost few requests.
type activity struct {
	mu          sync.Mutex
	runs        map[uuid.UUID]int
	ended       map[uuid.UUID]time.Time // when the last run ended, for workspaces without a run
	lastRefresh time.Time               // when List last refreshed an idle workspace
}

func (w *activity) beginRun(ws uuid.UUID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.runs == nil {
		w.runs, w.ended = map[uuid.UUID]int{}, map[uuid.UUID]time.Time{}
	}
	w.runs[ws]++
	delete(w.ended, ws)
}

func (w *activity) endRun(ws uuid.UUID, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.runs[ws]--; w.runs[ws] <= 0 {
		delete(w.runs, ws)
		w.ended[ws] = now
	}
}

// isQuiet reports whether the workspace is idle: it has no run, and its last run ended at least quietAfter ago.
func (w *activity) isQuiet(ws uuid.UUID, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.runs[ws] > 0 {
		return false
	}
	if endedAt, ok := w.ended[ws]; ok && now.Sub(endedAt) < quietAfter {
		return false
	}
	delete(w.ended, ws)
	return true
}

// claimRefresh reports whether it is time to refresh an idle workspace. If so, it records the time.
func (w *activity) claimRefresh(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now.Sub(w.lastRefresh) < quietPause {
		return false
	}
	w.lastRefresh = now
	return true
}
