package agentapi

import (
	"slices"
)

// pendingMessage is a message that is being delivered to a run. Until it is delivered, the run does not end when the
// agent becomes idle.
type pendingMessage struct {
	id, text string        // text is the form that is typed into the terminal
	dropped  chan struct{} // closed when the message must no longer be delivered
}

// addPending adds the message to the messages that wait for the run. It returns false if the run has ended, is ending or
// was interrupted.
func (t *transcript) addPending(p *pendingMessage) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sealed || t.ended || t.interrupted {
		return false
	}
	t.pending = append(t.pending, p)
	return true
}

// removePending removes the message from the messages that wait for the run. It does nothing if the message was dropped.
func (t *transcript) removePending(p *pendingMessage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pending = slices.DeleteFunc(t.pending, func(o *pendingMessage) bool { return o == p })
}

// hasPending reports whether a message is waiting for the run.
func (t *transcript) hasPending() bool { return t.pendingCount() > 0 }

// isPending reports whether a message with this text waits for the run or is being delivered.
func (t *transcript) isPending(text string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.pending, func(p *pendingMessage) bool { return p.text == text })
}

// dropPending cancels the delivery of all messages that wait for the run.
func (t *transcript) dropPending() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.pending {
		close(p.dropped)
	}
	t.pending = nil
}

// pendingCount returns the number of messages that wait for the run.
func (t *transcript) pendingCount() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.pending)
}

// seal marks the run as ending, so that it accepts no more messages. If a message already waits for the run, seal does
// nothing and returns false.
func (t *transcript) seal() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sealed = len(t.pending) == 0
	return t.sealed
}

// unseal marks the run as continuing.
func (t *transcript) unseal() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sealed = false
}
