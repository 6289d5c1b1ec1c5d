package coder

import (
	"sync"
	"time"

	"github.com/google/uuid"
)

// activity tracks which workspaces have a followed run. The others are refreshed rarely, so that hundreds of idle agents
// cost few requests.
type activity struct {
	mu     sync.Mutex
	runs   map[uuid.UUID]int
	ended  map[uuid.UUID]time.Time // end of the last run, of idle workspaces
	looked time.Time               // when an idle workspace was last read
}

func (w *activity) begin(ws uuid.UUID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.runs == nil {
		w.runs, w.ended = map[uuid.UUID]int{}, map[uuid.UUID]time.Time{}
	}
	w.runs[ws]++
	delete(w.ended, ws)
}

func (w *activity) end(ws uuid.UUID, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.runs[ws]--; w.runs[ws] <= 0 {
		delete(w.runs, ws)
		w.ended[ws] = now
	}
}

// rests reports whether the workspace is idle.
func (w *activity) rests(ws uuid.UUID, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.runs[ws] > 0 {
		return false
	}
	if at, ok := w.ended[ws]; ok && now.Sub(at) < quietAfter {
		return false
	}
	delete(w.ended, ws)
	return true
}

// looks reports whether it is time to refresh an idle workspace.
func (w *activity) looks(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now.Sub(w.looked) < quietPause {
		return false
	}
	w.looked = now
	return true
}
