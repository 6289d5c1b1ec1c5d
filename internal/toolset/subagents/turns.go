package subagents

import (
	"context"
	"sync"
	"time"

	"fleet/internal/fleet"
)

// turns lets one call at a time into each conversation, in the order of arrival.
type turns struct {
	most int // limit of waiting calls per conversation

	mu   sync.Mutex
	busy map[string]*queue
}

type queue struct{ waiting []chan struct{} }

func newTurns(most int) *turns { return &turns{most: most, busy: map[string]*queue{}} }

// take waits for the caller's turn in the conversation and returns a function that ends the turn. LIMIT_REACHED if too
// many wait already, AGENT_BUSY if the turn does not come in time.
func (t *turns) take(ctx context.Context, conversation, agent string, wait time.Duration) (leave func(), err error) {
	t.mu.Lock()
	q := t.busy[conversation]
	if q == nil {
		t.busy[conversation] = &queue{}
		t.mu.Unlock()
		return func() { t.next(conversation) }, nil
	}
	if len(q.waiting) >= t.most {
		t.mu.Unlock()
		return nil, fleet.Errorf(fleet.ReasonLimitReached,
			"%d calls wait for the subagent %q already, which does one at a time in a conversation: try again when they are done", t.most, agent).With("limit", "waiting")
	}
	mine := make(chan struct{})
	q.waiting = append(q.waiting, mine)
	t.mu.Unlock()

	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-mine:
		return func() { t.next(conversation) }, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = fleet.Errorf(fleet.ReasonAgentBusy, "the subagent %q has worked on other calls of yours for %s: try again later", agent, wait).With("agent_name", agent)
	}
	if !t.withdraw(conversation, mine) {
		t.next(conversation) // it came just now
	}
	return nil, err
}

// next gives the conversation to the caller that has waited longest.
func (t *turns) next(conversation string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	q := t.busy[conversation]
	if len(q.waiting) == 0 {
		delete(t.busy, conversation)
		return
	}
	close(q.waiting[0])
	q.waiting = q.waiting[1:]
}

// withdraw removes a caller from the queue and reports whether it was still waiting.
func (t *turns) withdraw(conversation string, mine chan struct{}) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	q := t.busy[conversation]
	for i, c := range q.waiting {
		if c == mine {
			q.waiting = append(q.waiting[:i:i], q.waiting[i+1:]...)
			return true
		}
	}
	return false
}
