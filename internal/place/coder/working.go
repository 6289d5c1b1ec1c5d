package coder

import (
	"sync"
	"time"

	"github.com/google/uuid"
)

// working knows which workspaces have a run that is followed. What is shown of the others does not change much, so it is read
// rarely: hundreds of agents that wait for work cost few requests.
type working struct {
	mu     sync.Mutex
	runs   map[uuid.UUID]int
	ended  map[uuid.UUID]time.Time // the last run of those without one
	looked time.Time               // when one of those that rest was last read
}

func (w *working) begin(ws uuid.UUID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.runs == nil {
		w.runs, w.ended = map[uuid.UUID]int{}, map[uuid.UUID]time.Time{}
	}
	w.runs[ws]++
	delete(w.ended, ws)
}

func (w *working) end(ws uuid.UUID, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.runs[ws]--; w.runs[ws] <= 0 {
		delete(w.runs, ws)
		w.ended[ws] = now
	}
}

// rests reports whether the workspace has had no run for a while.
func (w *working) rests(ws uuid.UUID, now time.Time) bool {
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

// looks reports whether it is time to read what is shown of a workspace that rests.
func (w *working) looks(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now.Sub(w.looked) < quietPause {
		return false
	}
	w.looked = now
	return true
}
