package service_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/state"
)

// message sends a message to papi, and returns what the sender is told.
func (h *harness) message(text, requestID string) (string, error) {
	h.t.Helper()
	_, said, err := h.SendMessage(h.ctx(), "papi", text, requestID)
	return said, err
}

const (
	sentNow   = "Message sent to the running task"
	sentLater = "The message is kept: the agent gets it as soon as it can take it, if its task goes on until then"
)

func TestMessages(t *testing.T) {
	t.Parallel()
	h := newHarness(t, fake.Config{}, nil)
	h.create("papi")
	task := h.start("papi", "echo ready\nwait gate\nlisten\nlisten\ndone")
	<-h.world.Reached("gate")
	for range 2 {
		said, err := h.message("more light", "m1")
		require.NoError(t, err)
		require.Equal(t, sentNow, said)
	}
	_, err := h.message("more light", "")
	require.NoError(t, err, "the same words are another message")
	_, err = h.message("less light", "m1")
	require.Equal(t, fleet.ReasonInvalidArgument, reason(err))
	h.world.Release("gate")
	h.end(task.ID)
	require.Equal(t, []string{"more light", "more light"}, h.world.Messages(task.ID))
	require.Len(t, h.events(fleet.EventTaskMessage), 2)
	require.Empty(t, h.events(fleet.EventTaskStep))
}

// TestMessageRightAfterStart sends a message while the task is still being handed over.
func TestMessageRightAfterStart(t *testing.T) {
	t.Parallel()
	h := newHarness(t, fake.Config{}, nil)
	h.create("papi")
	gate := h.world.Hold(fake.Dispatch)
	task := h.start("papi", "listen\ndone")
	<-gate.Arrived()
	sent := make(chan error, 1)
	go func() {
		_, err := h.message("more light", "")
		sent <- err
	}()
	h.until("papi", func(*fleet.AgentView) bool { return len(h.events(fleet.EventTaskMessage)) == 1 })
	gate.Open()
	require.NoError(t, <-sent)
	require.Equal(t, fleet.TaskCompleted, h.end(task.ID).Status)
	require.Equal(t, "more light", h.output(task.ID))
}

// TestMessageBeforeTheTaskBegins sends a message that is there before anybody hands the task over: what is told of it comes
// after the task's start.
func TestMessageBeforeTheTaskBegins(t *testing.T) {
	t.Parallel()
	h := newHarness(t, fake.Config{}, func(c *state.Config) { c.MessageWait = 10 * time.Millisecond })
	h.create("papi")
	h.rec.Stop()
	task := h.start("papi", "listen\ndone")
	for range 2 {
		said, err := h.message("more light", "m1")
		require.NoError(t, err)
		require.Equal(t, sentLater, said)
	}
	h.restart()
	require.Equal(t, fleet.TaskCompleted, h.end(task.ID).Status)
	var types []fleet.EventType
	require.NoError(t, h.Watch(h.ctx(), service.WatchRequest{TaskID: task.ID}, func(events []fleet.Event, _ string) error {
		for _, e := range events {
			types = append(types, e.Type)
		}
		return nil
	}))
	require.Equal(t, []fleet.EventType{
		fleet.EventTaskCreated, fleet.EventTaskStarted, fleet.EventTaskMessage, fleet.EventTaskStep, fleet.EventTaskOutput, fleet.EventTaskEnded,
	}, types)
	require.Equal(t, []string{"more light"}, h.events(fleet.EventTaskMessage))
}

// TestMessagesOutliveTheirProcess has an agent that takes messages later, if at all: they are kept, in order, and the next
// process gives them to it.
func TestMessagesOutliveTheirProcess(t *testing.T) {
	t.Parallel()
	var free atomic.Bool
	hung := make(chan struct{}, 10)
	h := newHarness(t, fake.Config{Before: func(ctx context.Context, c fake.Call) error {
		if c.Method == fake.Send && !free.Load() {
			hung <- struct{}{}
			return hang(ctx)
		}
		return nil
	}}, func(c *state.Config) { c.MessageWait = 10 * time.Millisecond })
	h.create("papi")
	task := h.start("papi", "listen\nlisten\nlisten\ndone")
	for _, text := range []string{"one", "two"} {
		said, err := h.message(text, text)
		require.NoError(t, err)
		require.Equal(t, sentLater, said)
	}
	<-hung
	h.restart()
	<-hung            // it has the task, so the other replica has not
	other := h.rec2() // and a replica that does not follow the task takes the last one
	_, said, err := other.SendMessage(h.ctx(), "papi", "three", "")
	require.NoError(t, err)
	require.Equal(t, sentLater, said)
	free.Store(true)
	h.rec.Stop() // whoever hung hangs no more, and the other replica takes over
	require.Equal(t, fleet.TaskCompleted, h.end(task.ID).Status)
	require.Equal(t, []string{"one", "two", "three"}, h.world.Messages(task.ID))
	require.Len(t, h.events(fleet.EventTaskMessage), 3)
	require.Len(t, h.events(fleet.EventTaskStep), 3, "each time that a message arrived later than its sender waited")
	for range 2 {
		said, err = h.message("one", "one")
		require.NoError(t, err)
		require.Equal(t, sentNow, said, "by now")
	}
	require.Len(t, h.world.Messages(task.ID), 3)
}

// TestMessageWhoseAnswerGotLost has the agent take a message, and the process die before that is recorded.
func TestMessageWhoseAnswerGotLost(t *testing.T) {
	t.Parallel()
	for name, prompt := range map[string]string{"while it works": "listen\nwait gate\ndone", "at its end": "listen\ndone"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, fake.Config{}, func(c *state.Config) { c.MessageWait = 10 * time.Millisecond })
			h.create("papi")
			gate := h.world.HoldAfter(fake.Send)
			task := h.start("papi", prompt)
			said, err := h.message("hi", "m")
			require.NoError(t, err)
			require.Equal(t, sentLater, said)
			<-gate.Arrived()
			gate.Open()
			h.restart()
			h.world.Release("gate")
			require.Equal(t, fleet.TaskCompleted, h.end(task.ID).Status)
			require.Equal(t, []string{"hi"}, h.world.Messages(task.ID))
			said, err = h.message("hi", "m")
			require.NoError(t, err, "it was given")
			require.Equal(t, sentNow, said)
		})
	}
}

// TestMessageThatIsNotTaken has agents that cannot be given a message: its sender is told why.
func TestMessageThatIsNotTaken(t *testing.T) {
	t.Parallel()
	t.Run("none are taken", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t, fake.Config{NoMessages: true}, nil)
		h.create("papi")
		h.start("papi", "wait gate")
		for range 2 {
			_, err := h.message("hi", "m")
			require.Equal(t, fleet.ReasonUnimplemented, reason(err))
			require.ErrorContains(t, err, "cannot take messages")
		}
		require.Equal(t, 1, h.world.Calls(fake.Send))
		require.Len(t, h.events(fleet.EventTaskStep), 1)
	})
	t.Run("the task ends first", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t, fake.Config{}, nil)
		h.create("papi")
		h.world.Fail(fake.Send, 1<<30, nil)
		task := h.start("papi", "wait gate\ndone")
		sent := make(chan error, 1)
		go func() {
			_, err := h.message("hi", "")
			sent <- err
		}()
		<-h.world.Called(fake.Send, 1)
		h.world.Release("gate")
		require.Equal(t, fleet.TaskCompleted, h.end(task.ID).Status)
		err := <-sent
		require.Equal(t, fleet.ReasonNoRunningTask, reason(err))
		require.ErrorContains(t, err, "ended before")
		require.Empty(t, h.world.Messages(task.ID))
	})
	t.Run("the task is stopped", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t, fake.Config{Before: func(ctx context.Context, c fake.Call) error {
			if c.Method == fake.Send {
				return hang(ctx)
			}
			return nil
		}}, func(c *state.Config) { c.CallTimeout = 200 * time.Millisecond })
		h.create("papi")
		h.start("papi", "wait gate")
		sent := make(chan error, 1)
		go func() {
			_, err := h.message("hi", "")
			sent <- err
		}()
		<-h.world.Called(fake.Send, 1)
		stopped, _, _, err := h.StopTask(h.ctx(), "papi", "")
		require.NoError(t, err)
		require.Equal(t, fleet.TaskStopped, stopped.Status)
		require.Equal(t, fleet.ReasonNoRunningTask, reason(<-sent))
	})
	t.Run("the agent is deleted", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t, fake.Config{}, nil)
		h.create("papi")
		h.world.Fail(fake.Send, 1<<30, nil)
		h.start("papi", "wait gate")
		sent := make(chan error, 1)
		go func() {
			_, err := h.message("hi", "")
			sent <- err
		}()
		<-h.world.Called(fake.Send, 1)
		_, _, err := h.DeleteAgent(h.ctx(), "papi", "")
		require.NoError(t, err)
		require.Equal(t, fleet.ReasonNoRunningTask, reason(<-sent))
	})
}

// TestMessageThatIsTriedAgain has a host that does not answer for a while.
func TestMessageThatIsTriedAgain(t *testing.T) {
	t.Parallel()
	h := newHarness(t, fake.Config{}, nil)
	h.create("papi")
	h.world.Fail(fake.Send, 2, nil)
	task := h.start("papi", "listen\ndone")
	said, err := h.message("hi", "")
	require.NoError(t, err)
	require.Equal(t, sentNow, said)
	require.Equal(t, fleet.TaskCompleted, h.end(task.ID).Status)
	require.Equal(t, []string{"hi"}, h.world.Messages(task.ID))
}

// TestMessageToATaskThatStops is too late.
func TestMessageToATaskThatStops(t *testing.T) {
	t.Parallel()
	h := newHarness(t, fake.Config{}, func(c *state.Config) { c.StopGrace = time.Hour })
	h.create("papi")
	h.start("papi", "ignore-interrupt\nwait gate\ndone")
	<-h.world.Reached("gate")
	ctx, cancel := context.WithCancel(h.ctx())
	go func() { _, _, _, _ = h.StopTask(ctx, "papi", "") }()
	h.until("papi", func(v *fleet.AgentView) bool { return v.Task != nil && !v.Task.StopAsked.IsZero() })
	cancel()
	_, err := h.message("hi", "")
	require.Equal(t, fleet.ReasonNoRunningTask, reason(err))
	require.ErrorContains(t, err, "being stopped")
	h.world.Release("gate")
}
