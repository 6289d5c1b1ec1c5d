package coder

import (
	"sync"
	"time"

	"github.com/google/uuid"
)

const (
	idleAfter        = time.Minute      // an agent counts as idle this long after its last run
	idleRefreshPause = 30 * time.Second // pause between two Lists that read the metadata of an idle agent
)

// activity tracks which workspaces have a run that is being followed. Idle workspaces are refreshed rarely, so that hundreds
// of idle agents cost few requests.
type activity struct {
	mu          sync.Mutex
	runs        map[uuid.UUID]int       // number of followed runs, by workspace
	endedAt     map[uuid.UUID]time.Time // when the last run ended, for workspaces without a run
	lastRefresh time.Time               // when List last refreshed an idle workspace
}

func (a *activity) beginRun(ws uuid.UUID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.runs[ws]++
	delete(a.endedAt, ws)
}

func (a *activity) endRun(ws uuid.UUID, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.runs[ws]--; a.runs[ws] <= 0 {
		delete(a.runs, ws)
		a.endedAt[ws] = now
	}
}

// isIdle reports whether the workspace is idle: it has no run, and its last run ended at least idleAfter ago.
func (a *activity) isIdle(ws uuid.UUID, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.runs[ws] > 0 {
		return false
	}
	if endedAt, ok := a.endedAt[ws]; ok && now.Sub(endedAt) < idleAfter {
		return false
	}
	delete(a.endedAt, ws)
	return true
}

// claimRefresh reports whether it is time to refresh an idle workspace. If so, it records the time.
func (a *activity) claimRefresh(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.Sub(a.lastRefresh) < idleRefreshPause {
		return false
	}
	a.lastRefresh = now
	return true
}
