package agentapi

import (
	"slices"
	"sync"
	"time"

	"fleet/internal/fleet"
)

// Limits of the memory for runs.
const (
	maxTranscripts     = 256
	maxTranscriptBytes = 4 << 20 // of output of one run
)

// transcripts holds the transcripts of the newest runs, by task. It keeps the transcript of each run that is being followed.
type transcripts struct {
	mu     sync.Mutex
	byTask map[string]*transcript
	order  []string // the keys of byTask, oldest first
}

// getOrCreate returns the transcript of the run. It creates one if there is none.
func (r *transcripts) getOrCreate(taskID string) *transcript {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.byTask[taskID]; t != nil {
		return t
	}
	if len(r.order) >= maxTranscripts {
		// Remove the oldest run that nobody follows.
		i := slices.IndexFunc(r.order, func(task string) bool { return len(r.byTask[task].followerLock) == 0 })
		if i >= 0 {
			delete(r.byTask, r.order[i])
			r.order = slices.Delete(r.order, i, i+1)
		}
	}
	t := &transcript{followerLock: make(chan struct{}, 1), messageTimes: map[string]time.Time{}}
	r.byTask[taskID] = t
	r.order = append(r.order, taskID)
	return t
}

// has reports whether there is a transcript of the run.
func (r *transcripts) has(taskID string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byTask[taskID] != nil
}

// taskOf returns the id of the task whose run's message the agent got at that time. It ignores the task except, and returns an
// empty id if the task is unknown. uid is the agent's.
func (r *transcripts) taskOf(uid string, at time.Time, except string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for task, t := range r.byTask {
		if task != except && t.ownsMessage(uid, at) {
			return task
		}
	}
	return ""
}

// transcript is the state of a run, and the part of its output that this process has seen. The output is kept because the screen
// loses text, and because text that was passed on must not change.
type transcript struct {
	followerLock chan struct{} // holds a value while a follower follows the run

	// Only the holder of followerLock uses the following fields.
	screenReader *screenReader
	outputs      []fleet.Output
	size         int  // bytes of text in outputs
	truncated    bool // the beginning of outputs was dropped

	mu              sync.Mutex           // protects the following fields
	agentUID        string               // empty if unknown
	cursorMessageID int                  // id of the run's message, from a cursor; 0 if unknown
	messageAt       time.Time            // time of the run's message, by the agent's clock; zero if unknown
	messageTimes    map[string]time.Time // times of the run's later messages, by id
	pending         []*pendingMessage    // later messages that are being delivered
	sealed          bool                 // the run is ending, and accepts no more messages
	dispatched      bool                 // this process has dispatched the run
	reportsSince    time.Time            // earlier reports of the agent are not about the run; by the host's clock
	interrupted     bool
	ended           bool
	outcome         fleet.Outcome
}

// indexAfter returns the index of the first output after the cursor. If outputs does not contain the cursor, indexAfter
// empties outputs, so that they begin after the cursor.
func (t *transcript) indexAfter(cursor string) (int, error) {
	if t.screenReader != nil && cursor == "" && !t.truncated {
		return 0, nil
	}
	for i, out := range t.outputs {
		if out.Cursor == cursor {
			return i + 1, nil
		}
	}
	p, err := parsePosition(cursor)
	if err != nil {
		return 0, err
	}
	t.screenReader, t.outputs, t.size, t.truncated = newScreenReader(p), nil, 0, cursor != ""
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cursorMessageID = p.runMessage
	return 0, nil
}

// add appends the outputs to those of the run.
func (t *transcript) add(outputs []fleet.Output) {
	for _, out := range outputs {
		t.outputs = append(t.outputs, out)
		t.size += len(out.Text)
	}
}

// trim drops the older half of the first n outputs if the outputs are larger than maxTranscriptBytes. n is the index of the
// next output; trim returns its new index.
func (t *transcript) trim(n int) int {
	if t.size <= maxTranscriptBytes {
		return n
	}
	half := n / 2
	for _, out := range t.outputs[:half] {
		t.size -= len(out.Text)
	}
	t.outputs = append([]fleet.Output(nil), t.outputs[half:]...)
	t.truncated = true
	return n - half
}

// setMessage records m as the run's message.
func (t *transcript) setMessage(uid string, m message) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.agentUID, t.messageAt = uid, m.Time
}

// ownMessageTime returns the time of the run's message, and whether that time is known.
func (t *transcript) ownMessageTime() (time.Time, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.messageAt, !t.messageAt.IsZero()
}

// ownsMessage reports whether the run's message is the one that the agent got at that time.
func (t *transcript) ownsMessage(uid string, at time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.agentUID == uid && !t.messageAt.IsZero() && t.messageAt.Equal(at)
}

// recordMessage records when the run got a later message.
func (t *transcript) recordMessage(id string, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.messageTimes[id] = at
}

// messageTime returns when the run got the message, and whether that is known.
func (t *transcript) messageTime(id string) (time.Time, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, ok := t.messageTimes[id]
	return at, ok
}

// hasMessage reports whether the run is known to have got the later message.
func (t *transcript) hasMessage(id string) bool {
	_, ok := t.messageTime(id)
	return ok
}

// hasMessageAt reports whether the run is known to have got a later message at that time.
func (t *transcript) hasMessageAt(at time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, messageTime := range t.messageTimes {
		if messageTime.Equal(at) {
			return true
		}
	}
	return false
}

// markDispatched records that this process has dispatched the run. Reports of the agent before reportsSince are not about the run.
func (t *transcript) markDispatched(reportsSince time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dispatched, t.reportsSince = true, reportsSince
}

func (t *transcript) markInterrupted() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.interrupted = true
}

func (t *transcript) wasInterrupted() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.interrupted
}

// dispatchState returns whether this process has dispatched the run, and since when the agent's reports are about the
// run.
func (t *transcript) dispatchState() (dispatched bool, reportsSince time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.dispatched, t.reportsSince
}

func (t *transcript) setOutcome(o fleet.Outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended, t.outcome = true, o
}

// endOutcome returns the outcome of the run, and whether this process has seen the run's end.
func (t *transcript) endOutcome() (fleet.Outcome, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.outcome, t.ended
}

// messageOfCursor returns the id of the run's message, from a cursor; 0 if it is unknown.
func (t *transcript) messageOfCursor() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.cursorMessageID
}
