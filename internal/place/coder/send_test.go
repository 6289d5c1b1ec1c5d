package coder_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/place/coder"
	"fleet/internal/waittest"
)

// sendInBackground sends a message to the run in the background, and returns when the message is waiting for the agent. The
// channel sent receives the result.
func (x *fakeCoder) sendInBackground(p *coder.Place, r fleet.Run, id, text string) (sent chan error) {
	sent = make(chan error, 1)
	go func() { sent <- p.Connect(x.agent()).Send(x.Context(), r, id, text) }()
	x.awaitWaitingMessage(p, r)
	return sent
}

// awaitWaitingMessage polls until a message waits for the agent.
func (x *fakeCoder) awaitWaitingMessage(p *coder.Place, r fleet.Run) {
	waittest.Until(x.T, "a waiting message gives no signal", func() bool { return p.PendingMessages(r.TaskID) == 1 })
}

// TestMessagesWait sends messages to a working agent. Each must be delivered once, when the agent is idle.
func TestMessagesWait(t *testing.T) {
	t.Parallel()
	x, p := newFakePlace(t)
	r := x.newRun("work")
	x.NoError(p.Connect(x.agent()).Dispatch(t.Context(), r))
	x.showScreen("* working 1/9", "running")
	outputs, done := x.followInBackground(p, r, "")
	<-outputs
	sent := x.sendInBackground(p, r, "m1", "use tabs")
	x.Len(x.prompts(), 1)
	x.showScreen("answer i", "stable")
	x.NoError(<-sent)
	x.Len(x.prompts(), 2)
	x.NoError(p.Connect(x.agent()).Send(t.Context(), r, "m1", "use tabs"), "a message that was delivered must not be sent again")
	sent = x.sendInBackground(p, r, "m2", "use tabs") // another message with the same text
	x.showScreen("answer ii", "stable")
	x.NoError(<-sent)
	x.showScreen("the end", "stable")
	o := <-done
	x.Equal(fleet.TaskCompleted, o.Status)
	x.Equal("the end", o.Summary)
	x.Equal("answer i\nanswer ii\nthe end", string(o.Payload))
	x.Equal([]string{"A spec.\n\nwork", "use tabs", "use tabs"}, x.prompts())
	x.Equal(fleet.ReasonNoRunningTask, fleet.ReasonOf(p.Connect(x.agent()).Send(t.Context(), r, "m3", "more")))
	x.NoError(p.Connect(x.agent()).Send(t.Context(), r, "m2", "use tabs"), "a message that was delivered must not be sent again after the end of the run")
}

// TestMessagesOfAnotherProcess stops a process that has delivered messages with equal texts. The next process must recognise
// them by their order, and must not end the run before the remaining messages are delivered.
func TestMessagesOfAnotherProcess(t *testing.T) {
	t.Parallel()
	x := newFakeCoder(t)
	first := x.newPlace()
	r := x.newRun("work")
	x.NoError(first.Connect(x.agent()).Dispatch(t.Context(), r))
	x.showScreen("answer i", "stable")
	x.NoError(first.Connect(x.agent()).Send(t.Context(), r, "m1", "go on"))
	x.showScreen("answer ii", "stable")
	x.NoError(first.Connect(x.agent()).Send(t.Context(), r, "m2", "go on")) // the next process does not know whether this message was delivered

	second := x.newPlace()
	r.Again, r.Messages = true, []fleet.Message{{ID: "m1", Text: "go on"}}
	x.NoError(second.Connect(x.agent()).Send(t.Context(), r, "m2", "go on"))
	x.Len(x.prompts(), 3, "the message must not be delivered again")
	x.showScreen("answer iii", "stable")
	r.Messages = append(r.Messages, fleet.Message{ID: "m2", Text: "go on"})
	x.NoError(second.Connect(x.agent()).Send(t.Context(), r, "m3", "go on"))
	x.Len(x.prompts(), 4)

	third := x.newPlace()
	r.Messages = append(r.Messages, fleet.Message{ID: "m3", Text: "go on"})
	x.showScreen("answer iv", "stable")
	x.NoError(third.Connect(x.agent()).Send(t.Context(), r, "m4", "and report"))
	x.Len(x.prompts(), 5)
	_, done := x.followInBackground(third, r, "")
	x.showScreen("the end", "stable")
	o := <-done
	x.Equal("the end", o.Summary)
	x.Equal("answer i\nanswer ii\nanswer iii\nanswer iv\nthe end", string(o.Payload))
}

// TestMessageAfterLongIdleTime sends a message to an agent that was idle for a long time, in a run that was not followed to
// its end. The answer must belong to the run, even for a later process.
func TestMessageAfterLongIdleTime(t *testing.T) {
	t.Parallel()
	x := newFakeCoder(t)
	first := x.newPlace()
	r := x.newRun("work")
	x.NoError(first.Connect(x.agent()).Dispatch(t.Context(), r))
	x.update(func() {
		x.messages[len(x.messages)-1]["time"] = time.Now().Add(-time.Minute)
		x.messages = append(x.messages, map[string]any{"id": len(x.messages), "role": "agent", "content": "done", "time": time.Now().Add(-time.Minute)})
		x.status = "stable"
	})
	r.StartedAt = time.Now().Add(-time.Minute)
	second := x.newPlace()
	x.NoError(second.Connect(x.agent()).Send(t.Context(), r, "m1", "one more thing"))
	x.showScreen("done too", "stable")
	r.Messages = []fleet.Message{{ID: "m1", Text: "one more thing"}}
	o, err := x.newPlace().Connect(x.agent()).Follow(t.Context(), r, "", func(fleet.Output) error { return nil })
	x.NoError(err)
	x.Equal("done too", o.Summary)
}

// TestUnacceptedMessages sends messages that the agent never receives.
func TestUnacceptedMessages(t *testing.T) {
	t.Parallel()
	x, p := newFakePlace(t)
	r := x.newRun("work")
	x.NoError(p.Connect(x.agent()).Dispatch(t.Context(), r))
	x.showScreen("* working 1/9", "running")

	ctx, cancel := context.WithCancel(t.Context())
	cancelled := make(chan error, 1)
	go func() { cancelled <- p.Connect(x.agent()).Send(ctx, r, "m0", "never mind") }()
	x.awaitWaitingMessage(p, r)
	cancel()
	x.ErrorIs(<-cancelled, context.Canceled)
	x.Zero(p.PendingMessages(r.TaskID))

	sent := x.sendInBackground(p, r, "m1", "use tabs")
	x.NoError(p.Connect(x.agent()).Interrupt(t.Context(), r, false))
	x.Equal(fleet.ReasonNoRunningTask, fleet.ReasonOf(<-sent))
	x.Equal(fleet.ReasonNoRunningTask, fleet.ReasonOf(p.Connect(x.agent()).Send(t.Context(), r, "m2", "use tabs")), "a run that is being stopped must refuse messages")
	x.Len(x.prompts(), 1)
	x.Equal(fleet.ReasonInvalidArgument, fleet.ReasonOf(p.Connect(x.agent()).Send(t.Context(), r, "m3", "\x1b\x03")))
	x.False(strings.Contains(strings.Join(x.prompts(), ""), "tabs"))
}
